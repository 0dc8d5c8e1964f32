"""Watches facts and changes nothing: logs, metrics, health, traces."""
