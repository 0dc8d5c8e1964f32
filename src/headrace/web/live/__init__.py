"""Pages that stay up to date, by server-sent events."""
