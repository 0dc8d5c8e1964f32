"""Logs, and the groups that read them."""
