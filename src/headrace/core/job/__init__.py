"""A job: its id, envelope and constraints, and its outcome."""
