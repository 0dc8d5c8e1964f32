"""Flows: which jobs wait for which."""
