"""Questions about queues, and their removal."""
