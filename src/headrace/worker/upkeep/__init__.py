"""Services that look after all queues of a worker."""
