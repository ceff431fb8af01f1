"""Runs as they go: who listens, what is told, and the objects that `stream_events` gives."""
