"""What holds for all runs of a worker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.worker.run.store_reporter import StoreReporters


@dataclass(frozen=True, slots=True)
class Terms:
    """The same in each of its loops; how these differ is a `Manner`."""

    worker: str
    state: Any
    crash_limit: int
    max_payload: int
    now_ms: Callable[[], int]
    events: bool = True
    """Whether the store tells what each run was like."""
    reporters: StoreReporters | None = None
