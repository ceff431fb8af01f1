"""Threads in a SQLite file."""

from perdure.checkpoint.sqlite.saver import SqliteSaver

__all__ = ["SqliteSaver"]
