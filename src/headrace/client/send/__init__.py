"""How jobs and events reach the store: single calls, batches and flows."""
