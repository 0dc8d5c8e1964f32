"""Topics: the log, its groups, and the way of an event from the log into a group's queue."""
