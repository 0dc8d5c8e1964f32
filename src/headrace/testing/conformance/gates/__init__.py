"""What a job waits for before it runs: priority, lane, limits, pauses, unique names."""
