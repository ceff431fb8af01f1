"""Guests: other frameworks that perdure meets when they are there, and does without when not."""
