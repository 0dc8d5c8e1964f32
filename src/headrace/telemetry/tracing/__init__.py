"""Spans of OpenTelemetry for what an app sends, publishes, reads and runs."""

from headrace.telemetry.tracing.tracing import Tracing

__all__ = ["Tracing"]
