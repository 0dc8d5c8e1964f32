"""Other queues, on the same server and with the same work."""
