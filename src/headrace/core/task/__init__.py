"""A task: what it declares, and a call of it before it is sent."""
