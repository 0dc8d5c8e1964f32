"""What a test lets go wrong."""

from __future__ import annotations

from typing import Any, Literal

from headrace.client.task import Task
from headrace.errors import ConfigError
from headrace.testing.drain.drain import wanted_by
from headrace.testing.faults.run_faults import Point, point_of
from headrace.testing.faults.store_faults import Fault
from headrace.testing.faults.tested_store import TestedStore
from headrace.worker.app import WorkerApp


class FaultMaker:
    """The part of the test kit that lets things go wrong."""

    app: WorkerApp
    _store: TestedStore | None = None

    @property
    def store(self) -> TestedStore:
        """The store in memory, also with `fail`, `down` and `slow`."""
        if self._store is None:
            raise ConfigError("this test kit has not begun: with app.testing() as headrace")
        return self._store

    def _check_faults(self) -> None:
        """Fail if a run or a request should have gone wrong, and there was none: the test shows
        nothing."""
        __tracebackhide__ = True
        if left := self.store.run_faults.left:
            raise AssertionError(f"{' and '.join(left)} did not happen: no such run came after it")
        if left := self.store.faults.left:
            raise AssertionError(f"{' and '.join(left)} did not happen: no such request came after")

    def crash(
        self,
        task: Task[..., Any] | str | None = None,
        *,
        before: Literal["run", "settle"] | None = None,
        after: Literal["fetch", "run"] | None = None,
        times: int = 1,
    ) -> None:
        """Have the worker of the next run die, or of the next `times`: `after="run"`, when the
        function has ended and its outcome is not written, or `before="run"`. Another worker takes
        the job over, and runs it again: a handler that does its work twice is found out. The test
        fails if no such run comes.

        Args:
            task: Only runs of this task or subscription, or of that name; of any if left out.
            before: `"run"`: the worker has the job, and has not begun it. `"settle"` is the same as
                `after="run"`.
            after: `"run"`, the default: the function has ended, and nobody knows. `"fetch"` is the
                same as `before="run"`.
            times: How many runs in a row, at most: after `crash_limit` of them the job is dead.
        """
        point, said = point_of(before, after)
        self._add(point, task, times, said)

    def lose_lease(self, task: Task[..., Any] | str | None = None, *, times: int = 1) -> None:
        """Have the next run lose its lease while it runs, as that of a worker that hangs: the job
        goes to another worker, the run is cancelled, and its outcome is not written. The test fails
        if no such run comes.

        Args:
            task: Only runs of this task or subscription, or of that name; of any if left out.
            times: How many runs in a row, at most: after `crash_limit` of them the job is dead.
        """
        self._add("during run", task, times, "lose_lease()")

    def _add(self, point: Point, task: object, times: int, said: str) -> None:
        if task is not None and not isinstance(task, (Task, str)):
            raise ConfigError(f"{said} takes a task, or its name, not {task!r}")
        self.store.run_faults.add(point, wanted_by(self.app, task, said), times, said)

    def fail(self, verb: str, times: int = 1, *, applied: bool = False) -> None:
        """Have the store fail at its next requests of one kind, with `StoreUnavailable`. The test
        fails if no such request comes.

        Args:
            verb: What it fails at: `"append"` sends jobs, `"publish"` events, `"fetch"` takes jobs,
                `"settle"` writes their ends. Others are those of `headrace.store.contract.Store`.
            times: How often.
            applied: Whether the store does it, and only its answer is lost.
        """
        self.store.fail(verb, times, applied=applied)

    def down(self) -> Fault:
        """`with headrace.down():` has every request to the store fail with `StoreUnavailable`
        inside."""
        return self.store.down()

    def slow(self, seconds: float, verb: str = "") -> Fault:
        """`with headrace.slow(0.2):` has requests to the store take longer inside, in real time.

        Args:
            seconds: How much longer.
            verb: Only requests of this kind, as in `fail`; all if left out.
        """
        return self.store.slow(seconds, verb)
