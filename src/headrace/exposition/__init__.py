"""Expose counts and state: Prometheus pages, probes, JSON logs, traces."""
