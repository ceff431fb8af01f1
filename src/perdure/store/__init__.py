"""Memory across threads."""
