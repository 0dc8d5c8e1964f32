"""What a job may have to wait for: parents, a time, a lane, limits, a paused task."""
