"""For tests of programs that use Headrace, and of stores that it can use."""

from headrace.testing.clock import ManualClock
from headrace.testing.conformance import StoreConformance

__all__ = ["ManualClock", "StoreConformance"]
