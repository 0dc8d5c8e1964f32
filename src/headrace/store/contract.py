"""What a store does. `Store` is for everyone; `Consumer` and `Upkeep` are for one worker.

A store is loop-agnostic: its coroutines may be awaited from several event loops of one process (a
web server's, a worker's, the one behind `enqueue_sync`). `headrace.testing.StoreConformance` checks
every promise made here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Literal, Protocol

import msgspec

from headrace.core.job.delivery import Delivery
from headrace.core.job.ids import JobKey
from headrace.core.job.outcome import Outcome
from headrace.core.job.parcel import Child, Parcel
from headrace.core.job.state import State
from headrace.core.job.tally import Tally
from headrace.store.topics import TopicStore
from headrace.store.values import (
    Arrival,
    Control,
    Counts,
    Description,
    FlowMessage,
    IdempotencyKey,
    JobEnding,
    KeyPage,
    LogPage,
    MinuteCount,
    QueueState,
    RecordedFact,
    Report,
)


class Settlement(msgspec.Struct, frozen=True, gc=False):
    """One delivery and what became of it."""

    delivery: Delivery
    outcome: Outcome


class JobSnapshot(msgspec.Struct, frozen=True):
    """What a store knows of one job at one moment."""

    state: State
    verdict: bytes = b""
    """An encoded `Verdict` once the job has ended and while it is kept."""
    due_ms: int | None = None
    worker: str = ""
    deliveries: int = 0
    """Deliveries at its present place."""
    reason: str = ""
    """Of a dead job why; of a blocked one what it waits for: `lane`, `flow` or the gate's name."""
    envelope: bytes = b""
    history: bytes = b""
    constraints: bytes = b""
    progress: bytes = b""
    """An encoded `Progress` of a job that has told of one and has not ended."""
    died_ms: int | None = None
    """When a dead job was given up."""


UNREADABLE = "unreadable"
"""The reason of a dead job whose reason is missing, or is no text."""


class DeadJob(msgspec.Struct, frozen=True):
    """A job that was given up, with the bytes it came in."""

    key: JobKey
    died_ms: int
    reason: str
    envelope: bytes
    history: bytes
    constraints: bytes = b""


class DeadJobPage(msgspec.Struct, frozen=True):
    jobs: list[DeadJob]
    cursor: str
    """Where the next page begins; empty after the last."""


class Promotion(msgspec.Struct, frozen=True):
    """What `promote` did. `next_in` is how many seconds to sleep before the next call can do
    anything, None if only a `due` signal can change that; `more` says that the batch was full."""

    moved: int
    next_in: float | None
    more: bool = False


Listener = Callable[[Sequence[JobKey] | None], None]
"""Called from the loop that listens, with the jobs concerned, or None for "look for yourself"."""


class ListenerHandle(Protocol):
    async def close(self) -> None: ...


class Store(TopicStore, Protocol):
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

    async def describe(self) -> Description:
        """What the store is, and which of its settings may lose jobs; asks it."""
        ...

    async def append(
        self,
        queue: str,
        parcels: Sequence[Parcel],
        *,
        repeat: bool = False,
        idempotency: IdempotencyKey | None = None,
    ) -> dict[int, JobKey]:
        """Store new jobs, all or none. Returns those that were not added, by position, with the job
        that is there instead: a job whose id the store still knows is left as it is; one whose
        `unique` name is taken is not added (if `debounced`, its time, arguments and constraints
        are); a tick that was fired is not fired again. `repeat` says that an earlier try may have
        been carried out, or that a caller chose an id, so jobs that already ended are looked for
        too.

        A job goes through its gates in this order, and waits, blocked, at each that is closed: the
        jobs it waits for, its time, its lane, its limits. Children of a job that has already ended
        are told so at once.

        Asked again with the same `idempotency`, it is applied once, whatever has become of the jobs
        meanwhile."""
        ...

    def give_up(self, idempotency: IdempotencyKey) -> None:
        """A request that was not answered is not made again: it is applied before the next one
        about its queue, or never."""
        ...

    async def remove(self, name: str, *, force: bool = False) -> int | None:
        """Forget a queue, which may have any name that the store lists, with all that it holds. How
        many jobs keep it from being removed, dead ones included, unless `force`; 0 if it is gone;
        None if there is none of this name. A name that is not UTF-8 is given with backslashes, as
        the log has it. A worker that reads the queue makes it anew."""
        ...

    async def cancel(
        self, queue: str, keys: Sequence[JobKey], *, running: bool = True
    ) -> list[State | None]:
        """Cancel jobs: `CANCELLED` for each that now is (it never starts, its verdict is kept for
        its `ttl_ms` or ten minutes); `RUNNING` for those whose worker is asked to end them, and
        which end as cancelled unless they end by themselves first, whatever becomes of that worker
        (without `running` they are left alone);
        else the state in which it has already ended, or None if the store does not know it."""
        ...

    async def pause(self, queue: str, task: str = "") -> None:
        """Have no more jobs of the queue (or of one task in it) started, until `resume`."""
        ...

    async def resume(self, queue: str, task: str = "") -> None:
        """Undo `pause`. Jobs that waited for it go on, in the order in which they came."""
        ...

    async def control(self, queue: str) -> Control:
        """What is paused, and which running jobs are to end."""
        ...

    async def follow(
        self, queue: str, parent: JobKey, children: Sequence[Child]
    ) -> JobEnding | None:
        """Have jobs, stored already, told when `parent` ends. If it has ended, nothing is noted and
        its ending is returned; done without a value if the store does not know it (any more)."""
        ...

    async def arrive(self, queue: str, arrivals: Sequence[Arrival]) -> None:
        """Record with blocked jobs of the queue that jobs they wait for have ended; an arrival
        that comes twice counts once. The last one sets a job free. A bad ending ends the job too,
        unless it `runs_anyway`: dead as `parent_failed` after a dead one, cancelled after a
        cancelled one."""
        ...

    async def arrived(self, queue: str, pairs: Sequence[tuple[JobKey, JobKey]]) -> list[bool]:
        """For each pair of a blocked job and one that it waits for, whether the end of the latter
        has arrived."""
        ...

    async def report(self, queue: str, reports: Sequence[Report]) -> None:
        """Keep what running jobs tell of themselves; of those that are not in the store, nothing.
        Logs keep their last 1,000 lines, for a day after the last one."""
        ...

    async def log(self, queue: str, key: JobKey, start: int = 0) -> LogPage:
        """The log of a job from line number `start` on, as far as it is kept."""
        ...

    async def once_set(self, queue: str, key: JobKey, name: str, value: bytes) -> None:
        """Mark with a live job that `name` was done, with its value; kept through retries, death
        and replay."""
        ...

    async def once_all(self, queue: str, key: JobKey) -> dict[str, bytes]:
        """What a job has done once: values by name."""
        ...

    async def browse(self, queue: str, state: State, cursor: str = "", limit: int = 100) -> KeyPage:
        """Keys of the jobs in a state, a page at a time: each that was in it all the while is seen,
        one that moves meanwhile may be seen or not. A page may be short, or empty, and not the
        last. `done` and `cancelled` jobs cannot be listed: an empty page."""
        ...

    async def events(
        self, queue: str, after: str = "", limit: int = 1000, wait: float = 0.0
    ) -> list[RecordedFact]:
        """Facts after a cursor, from the oldest kept if it is empty; `$` is the cursor of now (and
        gives one event, `lost` of nothing, that carries it). Waits up to `wait` seconds for the
        first. If some after the cursor are no longer kept, the first event is `lost`."""
        ...

    async def stats(self, queues: Sequence[str], since_minute: int) -> dict[str, list[MinuteCount]]:
        """What was counted in this minute and each one since, of each of the queues; in as few
        round trips as can be."""
        ...

    async def kv_set(
        self,
        space: str,
        name: str,
        value: bytes | None,
        *,
        ttl: float | None = None,
        expected: bytes | Literal["anything"] | None = "anything",
    ) -> bool:
        """Keep a small value under a name, for `ttl` seconds if given; None removes it. With
        `expected`, only if that is the present value (None: there is none). Returns whether it was
        done."""
        ...

    async def kv_all(self, space: str) -> dict[str, bytes]:
        """All values of a space that have not expired."""
        ...

    async def record(self, space: str, name: str, value: bytes, *, keep: float, most: int) -> None:
        """Keep an entry of a log of records, in place of one of that name. Names begin with the
        store's time, in ms and 14 digits, by which entries are in order and grow old: those older
        than `keep` seconds go, and the oldest of more than `most`."""
        ...

    async def records(
        self, space: str, before: str, limit: int, *, keep: float
    ) -> list[tuple[str, bytes]]:
        """Names and values of entries that are not older than `keep` seconds, the latest first:
        those before a name, or the last if that is empty."""
        ...

    async def on_kv(self, space: str, listener: Listener) -> ListenerHandle:
        """Call `listener` when a value of the space was written without a `ttl`. Best effort."""
        ...

    async def on_reports(self, queue: str, listener: Listener) -> ListenerHandle:
        """Call `listener` when jobs of the queue have reported something. Best effort."""
        ...

    async def get(
        self, queue: str, keys: Sequence[JobKey], *, bodies: bool = False
    ) -> list[JobSnapshot | None]:
        """What is known of these jobs; with `bodies` also envelope and history."""
        ...

    async def on_finished(self, queue: str, listener: Listener) -> ListenerHandle:
        """Call `listener` when jobs of the queue whose verdict is kept have ended. Best effort."""
        ...

    async def queues(self) -> list[str]:
        """Names of all queues that were ever sent to, sorted; without logs and groups' queues."""
        ...

    async def count(self, queue: str) -> Counts: ...

    async def locate(self, queues: Sequence[str], key: JobKey) -> list[str]:
        """Those of the queues that `get` would find the job in, in their order, and of logs those
        that hold the event; in as few round trips as can be."""
        ...

    async def survey(self, queues: Sequence[str]) -> list[QueueState]:
        """How each of the queues is, which may be those of groups; all zero of one that was never
        sent to. In as few round trips as can be: people look at hundreds of queues at once."""
        ...

    async def dead(self, queue: str, cursor: str = "", limit: int = 100) -> DeadJobPage:
        """Dead jobs, the latest first."""
        ...

    async def replay(
        self, queue: str, keys: Sequence[JobKey], envelopes: Sequence[bytes] = ()
    ) -> list[bool]:
        """Send dead jobs again, as they were or, one for each, with other bytes, with a clean
        history; False for those that are not dead (any more), so asking twice replays once. They go
        through their lane and limits anew; a `unique` name that another job has meanwhile is left
        to it."""
        ...

    async def purge(self, queue: str, keys: Sequence[JobKey]) -> list[bool]:
        """Forget dead jobs; False for those that were not dead."""
        ...

    def consumer(
        self,
        name: str,
        queues: Mapping[str, int] | Sequence[str],
        lease: float,
        *,
        strict: bool = False,
    ) -> StoreConsumer:
        """The side of the store that one worker talks to; `name` must be unique for ever, but one
        worker may have several consumers, each with queues of its own, of which any may `renew` for
        all. Queues share its reads by weight (alike if none are given), what one does not need
        going to the others; or `strict`, each only what those before it leave."""
        ...


class Consumer(Protocol):
    """One worker's deliveries: fetching them, keeping their leases, settling them."""

    name: str

    async def fetch(self, limit: int, wait: float) -> list[Delivery]:
        """Up to `limit` jobs of any of the queues that are not paused, each now leased to this
        consumer; of one queue those of the highest priority first. Waits up to `wait` seconds for
        the first. Must not be cancelled: `interrupt` ends the wait."""
        ...

    async def begin(
        self,
        queue: str,
        deliveries: Sequence[Delivery],
        *,
        idempotency: IdempotencyKey | None = None,
    ) -> dict[Delivery, str]:
        """Count the starts of jobs with limits. Those that may not start now are returned with the
        gate at which they must be `Held`, and are not counted. Asked again with the same
        `idempotency` and deliveries, each start is counted once."""
        ...

    async def recover(self, held: Collection[Delivery]) -> list[Delivery]:
        """What the store has leased to this consumer beyond `held`: deliveries whose fetch failed
        after the store had carried it out. To be called after a failed fetch."""
        ...

    async def interrupt(self) -> None:
        """End a `fetch` that waits; what it already has, it still returns."""
        ...

    async def settle(
        self,
        queue: str,
        settlements: Sequence[Settlement],
        *,
        repeat: bool = False,
        tally: Tally | None = None,
        idempotency: IdempotencyKey | None = None,
    ) -> list[Delivery]:
        """Apply the outcomes in one atomic step and return the deliveries that this consumer no
        longer held, of which nothing was written. `repeat` says that an earlier try may have been
        carried out; `tally` is what they come to, where the caller has counted already. Asked again
        with the same `idempotency` and settlements, it is applied once and answered alike."""
        ...

    def ready_ms(self, delivery: Delivery) -> int:
        """When the job came in line, by the store's clock; 0 if that is not known."""
        ...

    async def renew(self, deliveries: Sequence[Delivery]) -> list[Delivery]:
        """Extend the leases; returns those already lost. Awaited on an event loop in a thread of
        its own, so that a handler which blocks the worker's loop does not stop it."""
        ...

    async def close(self) -> None:
        """Release what is still held and leave no trace of this consumer. A second consumer of the
        same name, with other queues, is not concerned."""
        ...


class Upkeep(Protocol):
    """What workers do for queues as a whole: take over abandoned jobs, promote those that are due,
    relay messages between queues, and listen for changes."""

    async def reclaim(self, queue: str, limit: int, *, last_chance: bool) -> list[Delivery]:
        """Take over up to `limit` jobs whose lease ran out or that were released. Among them, at
        most one on its last chance (one more crash and it is dead), and none unless `last_chance`:
        the one job that kills its workers must not take the innocent along. The whole fleet
        looks about once per `reclaim_every`, and again at once if a look left something behind.
        Takes nothing for one lease after a pause of the store: every job looks abandoned then."""
        ...

    async def promote(self, queue: str) -> Promotion:
        """Let jobs go on whose time has come, by the store's clock: those that are due, and those
        that wait at a gate which is open again."""
        ...

    async def flow_messages(self, queue: str, limit: int = 500) -> list[FlowMessage]:
        """The oldest messages to other queues; one worker at a time is given any."""
        ...

    async def ack_flow_messages(self, queue: str, messages: Sequence[FlowMessage]) -> None:
        """Forget messages that have been delivered."""
        ...

    async def on_due(self, queue: str, listener: Listener) -> ListenerHandle:
        """Call `listener` when `promote` should be called earlier than planned, or there are
        messages to relay."""
        ...

    async def on_control(self, queue: str, listener: Listener) -> ListenerHandle:
        """Call `listener` when `Store.control` has changed; the next `fetch` heeds it."""
        ...


class StoreConsumer(Consumer, Upkeep, Protocol):
    """Both roles, as a store gives them to a worker."""


def reclaim_every(lease: float) -> float:
    """Seconds between two looks for abandoned jobs: short against the lease, so that recovery takes
    little longer than the lease itself."""
    return lease / 6


def renew_every(lease: float) -> float:
    """Seconds between renewals: two may fail before the lease runs out."""
    return lease / 3
