"""How a worker reads its queues, and the logs of its groups."""
