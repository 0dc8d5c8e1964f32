"""`on_success` and `on_dead` of tasks."""
