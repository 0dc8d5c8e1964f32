"""Jobs of all queues: what is known of them, and what can be done to them."""
