"""How the store reaches Redis: one server, one behind sentinels, or a cluster."""
