"""Spans of OpenTelemetry for what an app sends, publishes, reads and runs."""

from headrace.exposition.tracing.tracing import Tracing

__all__ = ["Tracing"]
