"""What a store does. `Store` is for everyone; `Consumer` and `Upkeep` are for one worker.

A store is loop-agnostic: its coroutines may be awaited from several event loops of one process (a
web server's, a worker's, the one behind `enqueue_sync`). `headrace.testing.StoreConformance` checks
every promise made here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Literal, Protocol

import msgspec

from headrace.core.confirming import UNCONFIRMED, Confirming
from headrace.core.job.capacity import Capacity, Runner
from headrace.core.job.delivery import LeasedDelivery
from headrace.core.job.history_rules import HistoryRules
from headrace.core.job.ids import JobId
from headrace.core.job.outcome import Outcome
from headrace.core.job.parcel import Child, Parcel
from headrace.core.job.state import State
from headrace.core.job.tally import Tally
from headrace.store.deaths import DeathListener, Deaths
from headrace.store.flow_values import Added, Addition, Cause, FlowPart
from headrace.store.queue_values import QueueBound, Rescheduling
from headrace.store.topics import TopicStore
from headrace.store.values import (
    Arrival,
    Control,
    Counts,
    Description,
    EndedJob,
    EndedJobPage,
    FlowMessage,
    Gathered,
    IdempotencyKey,
    JobEnding,
    JobIdPage,
    Kind,
    LogPage,
    MinuteCount,
    QueueState,
    RecordedFact,
    Report,
)


class Settlement(msgspec.Struct, frozen=True, gc=False):
    """One delivery, and its outcome."""

    delivery: LeasedDelivery
    outcome: Outcome


class RunStart(msgspec.Struct, frozen=True, gc=False):
    """One delivery, and when its run started, by the store's clock."""

    delivery: LeasedDelivery
    task: str
    attempt: int
    started_ms: int

    @property
    def fact(self) -> tuple[Kind, JobId, str, int, int]:
        """The first fields of its `Fact`."""
        return "started", self.delivery.job_id, self.task, self.attempt, self.started_ms


MOST_INPUTS = 262_144
"""Bytes of inputs that a snapshot has."""


class JobSnapshot(msgspec.Struct, frozen=True):
    """What a store knows of one job at one moment."""

    state: State
    verdict: bytes = b""
    """An encoded `Verdict` once the job has ended and while it is kept."""
    due_ms: int | None = None
    worker: str = ""
    deliveries: int = 0
    """How often it was delivered since it came to its present place."""
    reason: str = ""
    """Why a dead job died; what a blocked one waits for: `lane`, `flow` or the gate's name."""
    envelope: bytes = b""
    history: bytes = b""
    constraints: bytes = b""
    progress: bytes = b""
    """An encoded `Progress`, if the job has reported one and has not ended, or is in the
    history."""
    died_ms: int | None = None
    """When a dead job was given up."""
    cause: Cause | None = None
    """The job that failed first, if this one is dead because it waited for it; with `bodies`."""
    inputs: bytes = b""
    """The results of the jobs that it waited for, as an array, with `bodies`; empty if it has none,
    or they are larger than `MOST_INPUTS`."""
    ended: EndedJob | None = None
    """What the history has of a job that is done or cancelled."""
    gathered: Gathered | None = None
    """The batch of a job that gathers; with `bodies`."""


def ended_snapshot(job: EndedJob, verdict: bytes = b"") -> JobSnapshot:
    """The snapshot of a job that is in the history; `verdict` if that is kept apart."""
    return JobSnapshot(
        job.state,
        verdict or job.verdict,
        worker=job.worker,
        envelope=job.envelope,
        history=job.history,
        constraints=job.constraints,
        progress=job.progress,
        inputs=job.inputs,
        ended=job,
    )


UNREADABLE = "unreadable"
"""The reason of a dead job if its own is missing or is not text."""


class DeadJob(msgspec.Struct, frozen=True):
    """A job that was given up, with the bytes it came in."""

    job_id: JobId
    died_ms: int
    reason: str
    envelope: bytes
    history: bytes
    constraints: bytes = b""
    cursor: str = ""
    """`dead` after it gives the next one."""


class DeadJobPage(msgspec.Struct, frozen=True):
    jobs: list[DeadJob]
    cursor: str
    """Where the next page begins; empty after the last."""


class Promotion(msgspec.Struct, frozen=True):
    """What `promote` did. The next call can do something in `next_in` seconds; None: only after
    a `due` notification. `more` says that the batch was full."""

    moved: int
    next_in: float | None
    more: bool = False


Listener = Callable[[Sequence[JobId] | None], None]
"""Called on the loop that listens: with the jobs concerned, or None if all must be looked at."""


class ListenerHandle(Protocol):
    async def close(self) -> None: ...


class Store(TopicStore, Protocol):
    """Everything that is not tied to one worker."""

    history_rules: HistoryRules
    """What is kept of jobs that are done or cancelled, in the step that ends them: at most as many
    for each shelf, for at most as long, as these say. Events are not kept. Its `queues` say what
    is kept of each queue's dead jobs and facts, and of each job's log; dead jobs that are too many
    or too old may stay until the next few `reclaim`."""

    async def open(self) -> None:
        """Connect, and check that the store is usable; may be called again. If it is not, raises
        a `StoreError` that says what to do."""
        ...

    async def close(self) -> None:
        """Close the connections of this event loop; the store may be opened again."""
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
        may_exist: bool = False,
        idempotency: IdempotencyKey | None = None,
        bound: QueueBound | None = None,
        confirm: Confirming = UNCONFIRMED,
    ) -> dict[int, JobId]:
        """Store new jobs, all or none. Returns the jobs that were not added: position to the job
        that is there instead. A job whose id the store knows is left as it is. One whose `unique`
        name is taken is not added; if `debounced`, its time, arguments and constraints replace the
        first one's. A tick that was fired is not fired again. `may_exist` says that the store
        may know an id, from an earlier try or because a caller chose it: then ended jobs are
        searched too.

        A job passes its gates in this order, and waits, blocked, at each closed one: the jobs it
        waits for, its time, its lane, its batch or its limits. If a parent has already ended, its
        end arrives at once.

        With a `bound`, as many are stored, from the first on, as there is room for; the others are
        in the answer with `NO_ROOM`, or with `KEY_FULL` if too many of their key wait. A tick
        that was refused has not been fired.

        Asked again with the same `idempotency`, it is applied once, even if the jobs have ended
        meanwhile. It returns when what `confirm` asks for is certain, beside what the store always
        makes certain; if that takes too long, `StoreUnavailable` is raised as for a request that
        was sent and not answered."""
        ...

    def give_up(self, idempotency: IdempotencyKey) -> None:
        """Say that an unanswered request will not be made again. It is applied before the next
        request about its queue, or never."""
        ...

    async def remove(
        self, name: str, *, force: bool = False, unused_for: float | None = None
    ) -> int | None:
        """Remove a queue with all that it holds. Returns 0 if it is gone, None if there is no such
        queue, or, without `force`, the number of jobs (dead ones included) that keep it from being
        removed. Takes any name that the store lists; one that is not UTF-8 is given with
        backslashes, as the log shows it. A worker that reads the queue creates it again;
        it no longer holds what it took before.

        Jobs of other queues that wait for removed ones are cancelled, as if those had been; what
        waits for a removed dead job stays dead.

        With `unused_for`, only if in that many seconds nothing happened in it and no worker read
        it, and unless something in it is paused: else returns -1. Results stay until they
        expire."""
        ...

    async def cancel(
        self, queue: str, job_ids: Sequence[JobId], *, running: bool = True
    ) -> list[State | None]:
        """Cancel jobs. Returns for each: `CANCELLED` if it now is (it never starts, and its verdict
        is kept for its `ttl_ms` or ten minutes); `RUNNING` if its worker was asked to end it; the
        state in which it had already ended; or None if the store does not know it. A running job
        ends as cancelled unless it ends by itself first, even if its worker dies; without
        `running` it is left alone."""
        ...

    async def reschedule(
        self, queue: str, job_ids: Sequence[JobId], change: Rescheduling
    ) -> list[bool]:
        """Give waiting and scheduled jobs another time, priority or queue; returns for each whether
        it was one. A job that is due passes its lane and limits; one that waits goes behind the
        others of its priority, and leaves its lane if it is to run later. A job that changes its
        queue keeps its id and history; it must have no unique name, no lane, no place in a flow and
        nothing that it has done once, else the answer is False. It is in one of the two queues or,
        for a moment, on its way, as flow messages are."""
        ...

    async def pause(self, queue: str, task: str = "") -> None:
        """Start no more jobs of the queue, or of one task in it, until `resume`."""
        ...

    async def resume(self, queue: str, task: str = "") -> None:
        """Undo `pause`. Jobs that waited go on, in the order in which they came."""
        ...

    async def control(self, queue: str) -> Control:
        """What is paused, and which running jobs should end."""
        ...

    async def follow(
        self, queue: str, parent: JobId, children: Sequence[Child]
    ) -> JobEnding | None:
        """Make stored jobs children of `parent`, so that its end arrives at them. If it has already
        ended, returns its ending instead; if the store does not know it (any more), an ending as
        done without a value. A dead one keeps them: they wait again when it is replayed."""
        ...

    async def arrive(self, queue: str, arrivals: Sequence[Arrival]) -> list[Deaths]:
        """Record with blocked jobs of the queue that jobs they wait for have ended; an arrival
        that comes twice counts once. The last one sets a job free. A bad ending ends the job too,
        unless it `runs_anyway`: dead as `parent_failed` after a dead one, cancelled after a
        cancelled one. A job that died so still receives the ends of the others, and is blocked
        again when every job that failed has been replayed. Returns the jobs that died of it."""
        ...

    async def arrived(self, queue: str, pairs: Sequence[tuple[JobId, JobId]]) -> list[bool]:
        """For each pair of a blocked job and one that it waits for, whether the end of the latter
        has arrived."""
        ...

    async def flow_part(self, queue: str, flow: JobId, *, members: bool = False) -> FlowPart:
        """The jobs of a flow that are in this queue, as their constraints name it: how many are in
        each state, and with `members` which have not ended or failed. Done and cancelled ones are
        counted until an hour after the last job of the flow in this queue."""
        ...

    async def extend_flow(self, queue: str, job_id: JobId, flow: JobId, target: str) -> list[Child]:
        """Say that a running job of the queue adds jobs of queue `target` to its flow; returns the
        jobs that wait for it."""
        ...

    async def add_parents(self, queue: str, additions: Sequence[Addition]) -> list[Added]:
        """Let jobs of the queue wait for one more job each, whose result comes after those that
        they wait for already. To be called before that job is stored; asked again, it is added
        once. If it is not confirmed before the one that adds it is done, it does not count."""
        ...

    async def confirm_parents(self, queue: str, additions: Sequence[Addition]) -> None:
        """Say that the added jobs are stored."""
        ...

    async def report(self, queue: str, reports: Sequence[Report]) -> None:
        """Keep progress and log lines of running jobs; jobs that are not in the store are passed
        over. A log keeps its last lines, 1,000 unless `history_rules` say otherwise, for a day
        after the last one."""
        ...

    async def log(self, queue: str, job_id: JobId, start: int = 0) -> LogPage:
        """The log of a job from line number `start` on, as far as it is kept."""
        ...

    async def once_set(self, queue: str, job_id: JobId, name: str, value: bytes) -> None:
        """Mark with a live job that `name` was done, with its value; kept through retries, death
        and replay."""
        ...

    async def once_all(self, queue: str, job_id: JobId) -> dict[str, bytes]:
        """What a job has done once: values by name."""
        ...

    async def browse(
        self,
        queue: str,
        state: State,
        cursor: str = "",
        limit: int = 100,
        *,
        runner: Runner | None = None,
    ) -> JobIdPage:
        """A page of the jobs in a state; of waiting ones, only those of a runner if it is given, in
        the order in which they will be fetched. A job that stays in the state is listed; one that
        moves meanwhile may be missed. A page may be short or empty without being the last. `done`
        and `cancelled` jobs are those of the history, the latest first."""
        ...

    async def history(
        self, queue: str, cursor: str = "", limit: int = 100, *, state: State | None = None
    ) -> EndedJobPage:
        """Jobs that are done or cancelled, or only those in one of the two states, as far as they
        are kept, the latest first. Of a job that was sent again under the same id, only the last
        life counts: it is not among them while it is live, and then once. A page may be short or
        empty without being the last."""
        ...

    async def forget(self, queue: str, job_ids: Sequence[JobId]) -> list[bool]:
        """Delete what is kept of jobs that are done or cancelled: their places in the history,
        their results and logs. False where nothing was kept, and for live jobs."""
        ...

    async def events(
        self, queue: str, after: str = "", limit: int = 1000, wait: float = 0.0
    ) -> list[RecordedFact]:
        """Facts after a cursor; from the oldest kept if it is empty. `$` is now: it returns one
        `lost` fact, of nothing, whose cursor is the present one. Waits up to `wait` seconds for the
        first. If facts after the cursor are no longer kept, the first one is `lost`."""
        ...

    async def stats(self, queues: Sequence[str], since_minute: int) -> dict[str, list[MinuteCount]]:
        """Counts of each queue, for this minute and each one since; in as few round trips as
        possible."""
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
        """Write an entry of a log of records, or replace the one of that name. Names begin with the
        store's time in ms, in 14 digits, which gives their order and age. Entries older than `keep`
        seconds are removed, and the oldest of more than `most`."""
        ...

    async def records(
        self, space: str, before: str, limit: int, *, keep: float
    ) -> list[tuple[str, bytes]]:
        """Names and values of entries not older than `keep` seconds, the latest first: before the
        name `before`, or from the end if that is empty."""
        ...

    async def on_kv(self, space: str, listener: Listener) -> ListenerHandle:
        """Call `listener` when a value of the space was written without a `ttl`. Best effort."""
        ...

    async def on_reports(self, queue: str, listener: Listener) -> ListenerHandle:
        """Call `listener` when jobs of the queue have reported something. Best effort."""
        ...

    async def get(
        self, queue: str, job_ids: Sequence[JobId], *, bodies: bool = False
    ) -> list[JobSnapshot | None]:
        """What is known of these jobs; with `bodies` also envelope and history. A job that has
        ended is found by its verdict, or in the history."""
        ...

    async def on_finished(self, queue: str, listener: Listener) -> ListenerHandle:
        """Call `listener` when jobs of the queue whose verdict is kept have ended. Best effort."""
        ...

    async def queues(self) -> list[str]:
        """Names of all queues that were ever sent to, sorted; without logs and groups' queues."""
        ...

    async def count(self, queue: str) -> Counts: ...

    async def locate(self, queues: Sequence[str], job_id: JobId) -> list[str]:
        """The queues in which `get` would find the job, in their order, and the logs that hold the
        event; in as few round trips as possible."""
        ...

    async def survey(self, queues: Sequence[str]) -> list[QueueState]:
        """The state of each queue, groups' queues included; all zero for one that was never sent
        to. In as few round trips as possible: people look at hundreds of queues at once."""
        ...

    async def dead(self, queue: str, cursor: str = "", limit: int = 100) -> DeadJobPage:
        """Dead jobs, the latest first."""
        ...

    async def replay(
        self, queue: str, job_ids: Sequence[JobId], envelopes: Sequence[bytes] = (), by: str = ""
    ) -> list[bool]:
        """Send dead jobs again, as they were or with the given envelopes, one for each. Their
        earlier attempts stay in their history, with when they were replayed and `by` whom, and do
        not count. False for a job that is not dead
        (any more), so asking twice replays once. They pass their lane and limits again; a `unique`
        name that another job has meanwhile stays with that one. Jobs that died because they waited
        for one of them wait again, with the results that they have; asked for themselves, they
        stay dead (False) until then."""
        ...

    async def purge(self, queue: str, job_ids: Sequence[JobId]) -> list[bool]:
        """Forget dead jobs; False for those that were not dead."""
        ...

    def consumer(
        self,
        name: str,
        queues: Mapping[str, int] | Sequence[str],
        lease: float,
        *,
        strict: bool = False,
        on_deaths: DeathListener | None = None,
        concurrency: Mapping[str, int] | None = None,
    ) -> StoreConsumer:
        """The side of the store that one worker talks to. `name` must never be used again, but one
        worker may have several consumers, each with queues of its own; any of them may `renew` for
        all. Queues share its reads by weight, equally if none are given; what one does not need
        goes to the others. With `strict`, each gets only what those before it leave. Of a queue in
        `concurrency`, `fetch` and `reclaim` bring no job that is not leased yet while that many of
        it are, by all workers together; a `fetch` that waits goes on when there is room, if the
        worker listens (`on_control`). `on_deaths` is called with jobs that died in a `settle`,
        `promote` or `fetch` of this consumer without a run: a job that they waited for failed, or
        their key, or they cannot be read."""
        ...


class Consumer(Protocol):
    """One worker's deliveries: fetching them, keeping their leases, settling them."""

    name: str

    async def fetch(
        self, limit: int, wait: float, capacity: Capacity | None = None
    ) -> list[LeasedDelivery]:
        """Up to `limit` jobs of any of the queues that are not paused, each now leased to this
        consumer, and of each runner at most what `capacity` says; of one queue and runner those of
        the highest priority first. Jobs that have gathered come together, all that are left of
        their batch, and count as one; they have the same `batch`. Waits up to `wait` seconds for
        the first; jobs of a runner without capacity stay where they are, and do not end the wait.
        Must not be cancelled: `interrupt` ends the wait."""
        ...

    async def begin(
        self,
        queue: str,
        deliveries: Sequence[LeasedDelivery],
        *,
        idempotency: IdempotencyKey | None = None,
    ) -> dict[LeasedDelivery, str]:
        """Count the starts of jobs with limits. Returns the jobs that may not start now, which are
        not counted, with the gate at which each must be `Held`. Asked again with the same
        `idempotency` and deliveries, each start is counted once."""
        ...

    async def recover(self, held: Collection[LeasedDelivery]) -> list[LeasedDelivery]:
        """Deliveries leased to this consumer that are not in `held`: their fetch failed after the
        store had applied it. To be called after a failed fetch."""
        ...

    async def interrupt(self) -> None:
        """End a `fetch` that waits; what it already has, it still returns."""
        ...

    async def wake(self) -> None:
        """End a `fetch` that waits, for a worker that can start more than it asked for; later ones
        wait again. May miss a wait that just begins: to be repeated until the `fetch` has
        returned."""
        ...

    async def settle(
        self,
        queue: str,
        settlements: Sequence[Settlement],
        *,
        repeat: bool = False,
        tally: Tally | None = None,
        idempotency: IdempotencyKey | None = None,
    ) -> list[LeasedDelivery]:
        """Apply the outcomes in one atomic step. Returns the deliveries that this consumer no
        longer held; nothing is written for those. `repeat` says that an earlier try may have been
        applied; `tally` is the count of the outcomes, if the caller has it. Asked again with the
        same `idempotency` and settlements, it is applied once and answered alike.

        An outcome that the store does not know is refused with `UnknownOutcome`, and all of the
        batch with it: nothing is written, and every delivery is still held. The worker then divides
        the batch."""
        ...

    def ready_ms(self, delivery: LeasedDelivery) -> int:
        """When the job became ready, by the store's clock; 0 if that is not known."""
        ...

    async def renew(self, deliveries: Sequence[LeasedDelivery]) -> list[LeasedDelivery]:
        """Extend the leases; returns those already lost. Awaited on an event loop in a thread of
        its own, so that a handler which blocks the worker's loop does not stop it."""
        ...

    async def record_starts(
        self,
        queue: str,
        starts: Sequence[RunStart],
        *,
        idempotency: IdempotencyKey | None = None,
    ) -> None:
        """Write into the events of the queue that these runs have started, each with the time at
        which it did; nothing of deliveries that this consumer no longer holds, so that no start
        comes after its end. A `settle` of them should not write it again: see
        `LeasedDelivery.mark_start_recorded`. Awaited as `renew` is. Asked again with the same
        `idempotency` and starts, each is written once."""
        ...

    async def close(self) -> None:
        """Release what is still held and leave no trace of this consumer. A second consumer of the
        same name, with other queues, is not concerned."""
        ...


class Upkeep(Protocol):
    """What workers do for queues as a whole: take over abandoned jobs, promote those that are due,
    relay messages between queues, and listen for changes."""

    async def reclaim(
        self, queue: str, limit: int, *, last_chance: bool, capacity: Capacity | None = None
    ) -> list[LeasedDelivery]:
        """Take over up to `limit` jobs whose lease ran out or that were released, and of each
        runner at most what `capacity` says. At most one of them is on its last chance (one more
        crash and it is dead), and none unless `last_chance`: a job that kills its workers must not
        take others along. The whole fleet searches about once per `reclaim_every`, and again at
        once if a search left something behind. Takes nothing for one lease after a pause of the
        store: every job looks abandoned then."""
        ...

    async def promote(self, queue: str) -> Promotion:
        """Let jobs go on that are due, by the store's clock, that wait at a gate which is open
        again, or that have gathered for long enough."""
        ...

    async def flow_messages(self, queue: str, limit: int = 500) -> list[FlowMessage]:
        """The oldest messages to other queues; only one worker at a time gets any."""
        ...

    async def ack_flow_messages(self, queue: str, messages: Sequence[FlowMessage]) -> None:
        """Forget messages that have been delivered."""
        ...

    async def on_due(self, queue: str, listener: Listener) -> ListenerHandle:
        """Call `listener` when `promote` should be called earlier than planned, or there are
        messages to relay."""
        ...

    async def on_control(self, queue: str, listener: Listener) -> ListenerHandle:
        """Call `listener` when `Store.control` has changed; the next `fetch` applies it."""
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
