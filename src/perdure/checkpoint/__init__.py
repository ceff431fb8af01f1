"""Savers: where threads are kept.

`base` is the documented port, `memory`, `sqlite` are places; `port` is what the engine says to
our own savers besides.
"""
