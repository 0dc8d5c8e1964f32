"""Plain functions in threads."""
