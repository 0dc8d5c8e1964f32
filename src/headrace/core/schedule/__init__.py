"""Schedules: when they tick, and what is kept of them."""
