"""A job: its id, envelope and constraints, and what becomes of it."""
