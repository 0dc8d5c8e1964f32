"""A topic: what it and its subscriptions declare, and events as bytes."""
