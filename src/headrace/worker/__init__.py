"""Runs jobs: reads, runs and settles them, and looks after their queues."""
