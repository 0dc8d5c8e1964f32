"""Why a job is not running, in a sentence."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, assert_never

from headrace.admin.bodies import opened
from headrace.admin.jobs.flow_text import flow_text, of_task, parents_text
from headrace.admin.jobs.gathering_text import gathering_text
from headrace.admin.jobs.obstacles import busy_text, coming_again, obstacle_of
from headrace.admin.jobs.silence import silence_of, worker_of
from headrace.admin.jobs.summary import JobSummary, key_of, lost_result_of
from headrace.admin.redaction import CLEAR, Redaction
from headrace.client.attempts import run_started
from headrace.core.clock import to_datetime
from headrace.core.display import length_text, plural, utc_text
from headrace.core.job import ids
from headrace.core.job.capacity import Runner
from headrace.core.job.constraints import QUEUE_LIMIT, Limit, decode_constraints
from headrace.core.job.envelope import runner_of
from headrace.core.job.history import History, shown_history, shown_lives
from headrace.core.job.ids import JobId
from headrace.core.job.outcome import gated_task
from headrace.core.job.state import ENDED, REFUSED, State
from headrace.store.contract import JobSnapshot

if TYPE_CHECKING:
    from headrace.store.contract import Store
    from headrace.store.flow_values import Cause

_PAGE = 1000
_MOST_COUNTED = 10_000
_NEWER = (
    "A newer version of Headrace sent it, in a format that this one cannot read: a worker of that "
    "version runs it"
)
_TAKERS: dict[Runner, str] = {
    "loop": "free worker",
    "thread": "worker with a free thread",
    "process": "worker with a free process",
}


class Why:
    """Explains the state of one job, from a snapshot of it."""

    _noun = "job"
    _knows = "knows its task {!r}, with these arguments"

    def __init__(
        self,
        store: Store,
        queue: str,
        job_id: JobId,
        seen: JobSnapshot,
        redaction: Redaction = CLEAR,
        *,
        unknown: tuple[timedelta, str] = (timedelta(), "it is dead"),
        lease: float = 30.0,
    ) -> None:
        self._lease = lease
        self._unknown_after, self._unknown_fate = unknown
        self._store = store
        self._queue = queue
        self._key = job_id
        self._seen = seen
        self._job = JobSummary.of(queue, job_id, seen)
        self._constraints = decode_constraints(seen.constraints)
        self._redaction = redaction
        self._masks = redaction.masks(opened(seen.envelope), self._constraints)

    @property
    def _runner(self) -> Runner | None:
        """Only jobs of the same runner are in line with it."""
        return runner_of(self._seen.envelope)

    @property
    def _where(self) -> str:
        """Where the job is, as part of a sentence."""
        return f"queue {self._queue!r}"

    async def answer(self) -> str:
        sentence = await self._answer()
        if not self._job.newer_format or self._seen.state in (State.RUNNING, *ENDED):
            return sentence
        once = " once it is replayed" if self._seen.state is State.DEAD else ""
        return f"{sentence} {_NEWER}{once}."

    async def _answer(self) -> str:
        state, unknown = self._seen.state, shown_history(self._seen.history).unknown_since_ms
        if unknown and state in (State.SCHEDULED, State.WAITING):
            return await self._unknown(unknown)
        match state:
            case State.SCHEDULED:
                return await self._scheduled()
            case State.WAITING:
                return await self._waiting()
            case State.BLOCKED:
                return await self._blocked()
            case State.RUNNING:
                return await self._running()
            case State.DEAD:
                return await self._dead()
            case State.DONE | State.CANCELLED:
                return self._ended()
            case _:
                assert_never(state)

    def _ended(self) -> str:
        job = self._job
        is_done = job.state is State.DONE
        if job.ended is None:
            return f"It is done{self._loss}." if is_done else "It was cancelled."
        sentence = "It has been done since" if is_done else "It was cancelled at"
        sentence += f" {utc_text(job.ended)}"
        if job.attempt > 1:
            sentence += f", after {plural(job.attempt, 'attempt')}"
        return f"{sentence}{self._loss}."

    @property
    def _loss(self) -> str:
        """That its result is lost, and why, as part of a sentence."""
        lost = lost_result_of(self._seen)
        return f", but its result is lost: {self._masks.text(lost.error_text)}" if lost else ""

    async def _scheduled(self) -> str:
        due_ms, now_ms = self._seen.due_ms or 0, await self._store.time_ms()
        again = coming_again(shown_history(self._seen.history), self._error)
        if due_ms > now_ms:
            moment = utc_text(to_datetime(due_ms))
            return f"It is scheduled, due in {_length(due_ms - now_ms)}, at {moment}{again}."
        late = f"It has been due for {_length(now_ms - due_ms)}{again}"
        return f"{late}: {await self._obstacle() or 'a worker is about to take it'}."

    async def _unknown(self, since_ms: int) -> str:
        """The workers that met it do not know it."""
        since, obstacle = to_datetime(since_ms), await self._obstacle()
        knows = self._knows.format(self._job.task)
        if self._job.newer_format:
            knows = "reads its format"
        return (
            f"It waits for a worker that {knows}: those that met it since {utc_text(since)} do "
            f"not; {self._unknown_fate} if none does until "
            f"{utc_text(since + self._unknown_after)}{f'; and {obstacle}' if obstacle else ''}."
        )

    async def _waiting(self) -> str:
        obstacle = await self._obstacle()
        if obstacle:
            return f"It is waiting: {obstacle}."
        ahead, more = await self._ahead()
        busy = await busy_text(self._store, self._queue, self._runner) if self._runner else ""
        if not ahead:
            free = f"the next {_TAKERS[self._runner or 'loop']} takes it"
            return f"It is waiting, first in {self._where}: {busy and f'{busy}; '}{free}."
        others = f"{'more than ' if more else ''}{plural(ahead, self._noun)}"
        return f"It is waiting in {self._where}, behind {others}{busy and f': {busy}'}."

    async def _blocked(self) -> str:
        gate = self._seen.reason
        if gate == "lane":
            return f"It is blocked: {await self._lane()}."
        if gate == "task_lane":
            return f"It is blocked: {self._turns(None, self._constraints.task_width)}."
        if gate == "flow":
            parents = await parents_text(self._store, self._queue, self._key, self._seen)
            return f"It is blocked: {flow_text(self._key, self._seen)} for {parents} to end."
        if (task := gated_task(gate)) is not None:
            return f"It is blocked: task {task!r} is paused in queue {self._queue!r}."
        obstacle, its_task = await self._obstacle(), self._job.task or ""
        now_ms = await self._store.time_ms() if self._constraints.gathering else 0
        why = gathering_text(self._seen, self._constraints, its_task, self._masks, now_ms)
        why = why or self._rate(gate)
        return f"It is blocked: {why}{f'; and {obstacle}' if obstacle else ''}."

    async def _running(self) -> str:
        worker, progress = worker_of(self._seen.worker), self._job.progress
        sentence = f"It is running on worker {worker!r}, attempt {self._job.attempt}"
        started = await run_started(self._store, worker, self._key)
        if started is not None:
            sentence += f", since {utc_text(started)}"
        if progress is not None:
            sentence += f", {progress.fraction:.0%} done"
        if self._key in (await self._store.control(self._queue)).cancelling:
            sentence += ", and was asked to end"
        held = {"where": self._where, "noun": self._noun}
        silence = await silence_of(self._store, self._queue, worker, **held, lease=self._lease)
        return f"{sentence}; {silence}." if silence else f"{sentence}."

    async def _dead(self) -> str:
        history, ran = shown_lives(self._seen.history)[-1]
        since = ""
        if history.attempts:
            ended = to_datetime(history.attempts[-1].ended_ms)
            since = f" since {utc_text(ended)}{self._tries(history, ran)}"
        error = f": {self._error}" if self._error else ""
        if self._seen.cause is not None:
            error = f": {await self._failed_first(self._seen.cause)}"
        return f"It is dead ({self._seen.reason}){since}{error}."

    async def _failed_first(self, cause: Cause) -> str:
        """The job that failed first, and its error, as part of a sentence."""
        (seen,) = await self._store.get(cause.queue, [cause.job_id], bodies=True)
        id = ids.to_text(cause.job_id)
        if seen is None:
            return f"it waited for job {id}, which failed and is not kept"
        if seen.state is not State.DEAD:
            # The replay is on its way to this one.
            bringer = f"the next worker that reads queue {cause.queue!r} lets it go on"
            return f"it waited for job {id}, which failed and was replayed; {bringer}"
        first = Why(self._store, cause.queue, cause.job_id, seen, self._redaction)
        error = first._error or seen.reason
        its_task = of_task(first._job.task)
        return f"job {id}{its_task} in queue {cause.queue!r} failed first: {error}"

    def _tries(self, history: History, ran: int) -> str:
        """How many attempts there were, of the recorded ones; the last record may be of a run that
        never began."""
        refused = self._seen.reason in REFUSED and not history.attempts[-1].error_type
        count = ran - refused
        if count:
            replayed = " since its replay" if history.replayed_ms else ""
            return f", after {plural(count, 'attempt')}{replayed}"
        # After other deliveries it may have been started, and deferred or lost.
        return ", never started" if history.deliveries <= 1 else ""

    @property
    def _error(self) -> str:
        """The beginning of the last error, as part of a sentence."""
        return self._masks.text(self._job.error or "").partition("\n")[0].rstrip(" .")

    async def _obstacle(self) -> str:
        """What keeps all jobs of the queue or the task from starting; empty if nothing does."""
        return await obstacle_of(self._store, self._queue, self._job.task, self._where)

    async def _ahead(self) -> tuple[int, bool]:
        """How many jobs are ahead of it, and whether there are more than that."""
        counted, cursor = 0, ""
        while counted < _MOST_COUNTED:
            page = await self._store.browse(
                self._queue, State.WAITING, cursor, _PAGE, runner=self._runner
            )
            if self._key in page.job_ids:
                return counted + page.job_ids.index(self._key), False
            counted, cursor = counted + len(page.job_ids), page.cursor
            if not cursor:
                return counted, False
        return counted, True

    async def _lane(self) -> str:
        return self._turns(key_of(self._constraints), self._constraints.width)

    @property
    def _task_named(self) -> str:
        task = self._job.task
        return "its task" if task is None else f"task {task!r}"

    def _turns(self, key: str | None, width: int) -> str:
        turns = "one at a time" if width == 1 else f"{width} at a time"
        whose = self._task_named if key is None else f"its key {self._masks.name(key)!r}"
        return f"jobs of {whose} run {turns}, and others are before it"

    def _rate(self, gate: str) -> str:
        limit = next((limit for limit in self._constraints.limits if limit.name == gate), None)
        whose = f"queue {self._queue!r}" if gate == QUEUE_LIMIT else self._task_named
        return f"{whose} is over its rate{_rate_text(limit)}"


def _rate_text(limit: Limit | None) -> str:
    # Windows are a little longer than asked for: see `core/task/rate.py`.
    return "" if limit is None else f" of {limit.most:,} starts in {_length(limit.window_ms)}"


def _length(ms: int) -> str:
    return length_text(ms / 1000)
