"""What a worker logs about itself and its jobs."""
