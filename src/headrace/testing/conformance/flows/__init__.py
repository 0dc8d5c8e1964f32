"""Jobs that wait for other jobs."""
