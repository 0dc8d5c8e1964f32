"""How the runs of one loop differ from those of plain jobs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headrace.client.delivery import Fate
from headrace.core.job.delivery import LeasedDelivery
from headrace.worker.observer import Observe
from headrace.worker.run.recording import Recording
from headrace.worker.run.run import Run
from headrace.worker.run.slots import Slots


@dataclass(frozen=True, slots=True)
class Manner:
    """Each of these costs nothing where it is not set."""

    in_flight: Slots | None = None
    """The reader's slots, where deliveries keep theirs until they are settled."""
    receive: Callable[[Run], None] | None = None
    """Given each run that may begin, to have the executor `place` it later."""
    by_hand: Callable[[LeasedDelivery, Fate], None] | None = None
    """Given the fate of each event that its function settles, before its outcome."""
    dying: Callable[[LeasedDelivery], None] | None = None
    """Called with each delivery that is judged dead, before that is written."""
    auditing: Recording | None = None
    observe: Observe | None = None


PLAIN = Manner()
