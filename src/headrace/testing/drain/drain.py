"""Runs what is due, until nothing is, and raises what went wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from contextvars import ContextVar
from typing import Any, assert_never

from headrace.client.task import Task
from headrace.core.bounds import check_count
from headrace.core.job.delivery import LeasedDelivery
from headrace.core.job.envelope import id_and_task
from headrace.core.job.failure import GateClosed
from headrace.core.job.outcome import (
    Cancelled,
    Dead,
    Done,
    Held,
    Left,
    Outcome,
    Released,
    Retried,
)
from headrace.core.job.retry import RemoteError
from headrace.core.job.state import ENDED
from headrace.core.queue_names import group_source
from headrace.errors import ConfigError, TaskControl
from headrace.testing.drain.hand_loop import Wanted
from headrace.testing.drain.hand_worker import HandWorker, hand_settings
from headrace.worker.app import WorkerApp
from headrace.worker.run.run import Run
from headrace.worker.worker import lifespan_of

STEPS = 10_000
"""How many jobs one drain runs before it takes them for endless."""

Only = Task[..., Any] | str | Iterable[Task[..., Any] | str] | None


class Failures:
    """The errors of a drain: the last of each job that did not succeed after all."""

    def __init__(self) -> None:
        self._by_job: dict[tuple[str, bytes], tuple[BaseException, Outcome]] = {}
        self._others: list[BaseException] = []

    def failed(self, run: Run, error: BaseException, outcome: Outcome) -> None:
        """A run has failed."""
        match outcome:
            case Retried():
                if isinstance(error, (TaskControl, GateClosed)):
                    # It asked for that.
                    return
            case Dead():
                pass
            case Done() | Cancelled() | Held() | Released() | Left():
                return
            case _:
                assert_never(outcome)
        if isinstance(error, RemoteError) and error.__cause__ is not None:
            error = error.__cause__
        error.add_note(_note(run, outcome))
        self._by_job[run.delivery.queue, run.delivery.job_id] = error, outcome

    def noticed(self, error: BaseException) -> None:
        """Another function of the app has failed."""
        self._others.append(error)

    async def left(self, app: WorkerApp) -> list[BaseException]:
        """Those to be raised."""
        errors: list[BaseException] = []
        for (queue, job_id), (error, outcome) in self._by_job.items():
            if isinstance(outcome, Retried):
                (now,) = await app.store.get(queue, [job_id])
                if now is None or now.state in ENDED:
                    # It ran again, and all was well.
                    continue
            errors.append(error)
        unique = {id(error): error for error in (*errors, *self._others)}
        return list(unique.values())


_failures: ContextVar[Failures | None] = ContextVar("failures", default=None)


def _note(run: Run, outcome: Outcome) -> str:
    task = run.task.name if hasattr(run, "task") else "?"
    what = f"job {run.delivery.id_text} of task {task!r}, attempt {run.attempt}: "
    if isinstance(outcome, Dead):
        return what + f"it is dead ({outcome.reason})"
    delay = outcome.delay_ms / 1000 if isinstance(outcome, Retried) else 0.0
    return what + f"it runs again in {delay:g} s"


class Drain:
    """One drain of an app. `began_ms` is when the test began, `cursors` say where broadcasts go
    on."""

    def __init__(
        self,
        app: WorkerApp,
        *,
        began_ms: int,
        cursors: dict[str, dict[str, str]],
        waits: Callable[[], bool],
        only: Only = None,
        steps: int | None = None,
    ) -> None:
        self._app = app
        self._began_ms = began_ms
        self._cursors = cursors
        self._waits = waits
        self._wanted = wanted_by(app, only)
        self._broadcasts = only is None
        self._steps = STEPS if steps is None else check_count("drain(steps=)", steps)
        self._latest: list[str] = []
        outer = _failures.get()
        self.failures = Failures() if outer is None else outer
        """Those of a drain that a job asks for are of the drain that runs the job."""
        self.is_outermost = outer is None

    async def run(self, most: int | None = None) -> int:
        """Run all that is due, at most `most` jobs if given; how many it ran."""
        token = _failures.set(self.failures)
        try:
            return await self._run(most)
        finally:
            _failures.reset(token)

    async def _run(self, most: int | None) -> int:
        await self._app.session()
        settings = await hand_settings(self._app)
        if settings is None:
            return 0
        async with AsyncExitStack() as stack:
            state = await stack.enter_async_context(lifespan_of(self._app))
            worker = HandWorker(
                self._app,
                settings,
                state,
                failed=self.failures.failed,
                noticed=self.failures.noticed,
                began_ms=self._began_ms,
                cursors=self._cursors,
                broadcasts=self._broadcasts,
            )
            stack.push_async_callback(worker.close)
            self._app.running_workers.add(worker)
            stack.callback(self._app.running_workers.discard, worker)
            await worker.prepare()
            return await self._drain(worker, most)

    async def _drain(self, worker: HandWorker, most: int | None) -> int:
        ran = 0
        while most is None or ran < most:
            await worker.tend()
            before = ran
            while most is None or ran < most:
                taken = await worker.run_next(self._noted, self._waits)
                if not taken:
                    break
                ran += taken
                if ran > self._steps:
                    raise AssertionError(self._endless())
            if ran == before:
                if not worker.is_busy:
                    break
                await worker.finish(lambda: True)
        await worker.finish(lambda: False)
        return ran

    def _noted(self, delivery: LeasedDelivery) -> bool:
        if not self._wanted(delivery):
            return False
        self._latest = [*self._latest[-4:], id_and_task(delivery.envelope)[1].decode()]
        return True

    def _endless(self) -> str:
        names = ", ".join(sorted({repr(name) for name in self._latest}))
        return (
            f"drain() has run {self._steps:,} jobs, and there are more, the latest of {names}: "
            "does a job send itself again without a delay? drain(steps=…) sets another limit"
        )


def wanted_by(app: WorkerApp, only: Only, said: str = "drain(only=)") -> Wanted:
    """Whether a delivery is of these tasks and subscriptions; all are, without any. `said` names
    them if the app has no such."""
    if only is None:
        return lambda _: True
    given = [only] if isinstance(only, (Task, str)) else list(only)
    groups = {
        one.name: one for topic in app.topics.values() for one in topic.subscriptions.values()
    }
    names = [one if isinstance(one, str) else one.name for one in given]
    for name in names:
        if name not in app.tasks and name not in groups:
            known = ", ".join([*app.tasks, *groups]) or "none"
            raise ConfigError(f"{said}: the app has no task {name!r}; it has {known}")
    tasks = {name.encode() for name in names if name in app.tasks}
    queues = {queue for name in names if name in groups for queue in groups[name].queues}
    return lambda each: (
        each.queue in queues
        or (group_source(each.queue) is None and id_and_task(each.envelope)[1] in tasks)
    )


def raise_all(errors: list[BaseException]) -> None:
    """Raise the error of the one job that failed, or those of several together."""
    # Pytest then shows the job's own frames, not those of the drain.
    __tracebackhide__ = True
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise BaseExceptionGroup(f"{len(errors)} jobs failed", errors)
