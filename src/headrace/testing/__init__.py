"""For tests of programs that use Headrace, and of stores that it can use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.core.clock import ManualClock
from headrace.testing.kit import TestKit
from headrace.testing.perform.perform import perform, perform_batch, perform_sync
from headrace.testing.perform.performed import Performed
from headrace.testing.perform.recorded_context import RecordedContext, context
from headrace.testing.sent.sent import Sent

if TYPE_CHECKING:
    from headrace.testing.conformance import StoreConformance

__all__ = [
    "ManualClock",
    "Performed",
    "RecordedContext",
    "Sent",
    "StoreConformance",
    "TestKit",
    "context",
    "perform",
    "perform_batch",
    "perform_sync",
]


def __getattr__(name: str) -> Any:
    # Later, since it needs pytest, which a program that is tested with unittest does not have.
    if name != "StoreConformance":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from headrace.testing.conformance import StoreConformance
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "pytest":
            raise
        raise ModuleNotFoundError(
            "StoreConformance is a suite of pytest tests: pip install pytest", name="pytest"
        ) from None
    return StoreConformance
