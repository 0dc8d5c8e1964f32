"""What a store does. Two roles: `Store` for everyone, `Consumer` for one worker.

A store is loop-agnostic: its coroutines may be awaited from several event loops of one process (a
web server's, a worker's, the one behind `enqueue_sync`). `headrace.testing.StoreConformance` checks
every promise made here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

import msgspec

from headrace.core.call import Parcel
from headrace.core.delivery import Delivery
from headrace.core.ids import JobKey
from headrace.core.job import State
from headrace.core.outcome import Outcome


class Settlement(msgspec.Struct, frozen=True, gc=False):
    """One delivery and what became of it."""

    delivery: Delivery
    outcome: Outcome


class Sighting(msgspec.Struct, frozen=True):
    """What a store can say of one job."""

    state: State
    verdict: bytes = b""
    """An encoded `Verdict` once the job has ended and while it is kept."""
    due_ms: int | None = None
    worker: str = ""
    deliveries: int = 0
    """Deliveries at its present place."""
    reason: str = ""
    envelope: bytes = b""
    past: bytes = b""


class DeadJob(msgspec.Struct, frozen=True):
    """A job that was given up, with the bytes it came in."""

    key: JobKey
    died_ms: int
    reason: str
    envelope: bytes
    past: bytes


class DeadPage(msgspec.Struct, frozen=True):
    jobs: list[DeadJob]
    cursor: str
    """Where the next page begins; empty after the last."""


class Counts(msgspec.Struct, frozen=True):
    """How many jobs of a queue are in each state that a store keeps."""

    waiting: int = 0
    running: int = 0
    scheduled: int = 0
    dead: int = 0


class Promotion(msgspec.Struct, frozen=True):
    """What `promote` did. `next_in` is how many seconds to sleep before the next call can do
    anything, None if only a `due` signal can change that; `more` says that the batch was full."""

    moved: int
    next_in: float | None
    more: bool = False


Hear = Callable[[Sequence[JobKey] | None], None]
"""Called from the loop that listens, with the jobs concerned, or None for "look for yourself"."""


class Subscription(Protocol):
    async def close(self) -> None: ...


class Store(Protocol):
    """Everything that is not tied to one worker."""

    async def open(self) -> None:
        """Connect and check that the store is usable; may be called again. Raises `StoreError`
        that says what to do if it is not."""
        ...

    async def close(self) -> None:
        """Give back what this event loop holds; the store may be opened again."""
        ...

    async def time_ms(self) -> int:
        """The time by which the store decides what is due."""
        ...

    async def append(
        self, queue: str, parcels: Sequence[Parcel], *, repeat: bool = False
    ) -> list[bool]:
        """Store new jobs, all or none; for each, whether it was new. A job whose id the store still
        knows is left as it is. `repeat` says that an earlier try may have been carried out, or that
        a caller chose an id, so jobs that already ended are looked for too."""
        ...

    async def look(
        self, queue: str, keys: Sequence[JobKey], *, bodies: bool = False
    ) -> list[Sighting | None]:
        """What is known of these jobs; with `bodies` also envelope and past."""
        ...

    async def hear_finished(self, queue: str, hear: Hear) -> Subscription:
        """Call `hear` when jobs of the queue whose verdict is kept have ended. Best effort."""
        ...

    async def queues(self) -> list[str]:
        """Names of all queues that were ever sent to, sorted."""
        ...

    async def count(self, queue: str) -> Counts: ...

    async def dead(self, queue: str, cursor: str = "", limit: int = 100) -> DeadPage:
        """Dead jobs, the latest first."""
        ...

    async def replay(self, queue: str, keys: Sequence[JobKey]) -> list[bool]:
        """Send dead jobs again, as they were, with a clean past; False for those that are not dead
        (any more), so asking twice replays once."""
        ...

    async def purge(self, queue: str, keys: Sequence[JobKey]) -> list[bool]:
        """Forget dead jobs; False for those that were not dead."""
        ...

    def consumer(self, name: str, queues: Sequence[str], lease: float) -> Consumer:
        """The side of the store that one worker talks to; `name` must be unique for ever."""
        ...


class Consumer(Protocol):
    """One worker's deliveries: taking them, keeping them, settling them."""

    name: str

    async def fetch(self, limit: int, wait: float) -> list[Delivery]:
        """Up to `limit` jobs of any of the queues, each now leased to this consumer; waits up to
        `wait` seconds for the first. Must not be cancelled: `interrupt` ends the wait."""
        ...

    async def recover(self, held: Collection[Delivery]) -> list[Delivery]:
        """What the store has leased to this consumer beyond `held`: deliveries whose fetch failed
        after the store had carried it out. To be called after a failed fetch."""
        ...

    async def interrupt(self) -> None:
        """End a `fetch` that waits; what it already has, it still returns."""
        ...

    async def settle(
        self, queue: str, settlements: Sequence[Settlement], *, repeat: bool = False
    ) -> list[Delivery]:
        """Apply the outcomes in one atomic step and return the deliveries that this consumer no
        longer held, of which nothing was written. `repeat` says that an earlier try may have been
        carried out."""
        ...

    async def renew(self, deliveries: Sequence[Delivery]) -> list[Delivery]:
        """Extend the leases; returns those already lost. Awaited on an event loop in a thread of
        its own, so that a handler which blocks the worker's loop does not stop it."""
        ...

    async def reclaim(self, queue: str, limit: int, *, last_chance: bool) -> list[Delivery]:
        """Take over up to `limit` jobs whose lease ran out or that were released. Among them, at
        most one on its last chance (one more crash and it is dead), and none unless `last_chance`:
        the one job that kills its workers must not take the innocent along. The whole fleet
        looks about once per `reclaim_every`, and again at once if a look left something behind.
        Takes nothing for one lease after a pause of the store: every job looks abandoned then."""
        ...

    async def promote(self, queue: str) -> Promotion:
        """Make scheduled jobs that are due ready, by the store's clock."""
        ...

    async def hear_due(self, queue: str, hear: Hear) -> Subscription:
        """Call `hear` when `promote` should be called earlier than planned."""
        ...

    async def close(self) -> None:
        """Release what is still held and leave no trace of this consumer."""
        ...


def reclaim_every(lease: float) -> float:
    """Seconds between two looks for abandoned jobs: short against the lease, so that recovery takes
    little longer than the lease itself."""
    return lease / 6


def renew_every(lease: float) -> float:
    """Seconds between renewals: two may fail before the lease runs out."""
    return lease / 3
