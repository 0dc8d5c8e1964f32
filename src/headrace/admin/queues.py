"""What is known of a queue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.store.contract import Counts


@dataclass(frozen=True, slots=True)
class QueueInfo:
    """A queue and how many of its jobs are in each state."""

    name: str
    waiting: int
    running: int
    scheduled: int
    dead: int

    @classmethod
    def of(cls, name: str, counts: Counts) -> QueueInfo:
        return cls(name, counts.waiting, counts.running, counts.scheduled, counts.dead)
