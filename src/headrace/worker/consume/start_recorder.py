"""Records the starts of runs that go on for a while, so that events show them meanwhile."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Future

from headrace.core.job.delivery import LeasedDelivery
from headrace.store.contract import Consumer, RunStart, Settlement
from headrace.store.values import IdempotencyKey
from headrace.worker.run.run import Run

_LONG = 1.0
"""Seconds after which a run is recorded while it goes on."""
_PATIENCE = 1.0
"""Seconds for which an outcome waits for the answer to such a request."""

Runs = tuple[Consumer, Collection[LeasedDelivery], Iterable[Run]]
"""A consumer, what it holds, and its runs."""


class StartRecorder:
    """The start of a short run is written with its end. Of a run that goes on, the heartbeat has it
    written before, from its own thread; then it is not written again.

    A request that was not answered is made again as it was. If its run ends before that, the start
    is written with the end: it may be there twice then, but is never missing."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        # Between the thread of the heartbeat and that of the runs. A run that is being settled has
        # left the running ones before its settlement takes the lock: so it is either claimed, and
        # its settlement knows, or not claimed any more.
        self._lock = threading.Lock()
        self._claims: dict[LeasedDelivery, _Request] = {}
        self._unanswered: dict[tuple[Consumer, str], _Request] = {}

    async def step(self, running: Callable[[], Sequence[Runs]]) -> None:
        """Record the runs that have become long: one request for each consumer and queue, and none
        without such a run."""
        with self._lock:
            requests = self._requests(running())
        troubles = await asyncio.gather(*map(self._make, requests), return_exceptions=True)
        for trouble in troubles:
            if trouble is not None:
                raise trouble

    async def before_settling(self, settlements: Sequence[Settlement]) -> None:
        """Have each start written once: with these outcomes, unless it is written already. Waits
        for requests that are under way."""
        with self._lock:
            if not self._claims:
                return
            deliveries = [item.delivery for item in settlements if item.delivery in self._claims]
            claims = [(delivery, self._claims.pop(delivery)) for delivery in deliveries]
        answers = {request.answer for _, request in claims if not request.answer.done()}
        if answers:
            await asyncio.wait(map(asyncio.wrap_future, answers), timeout=_PATIENCE)
        for delivery, request in claims:
            if request.recorded:
                delivery.mark_start_recorded()

    # In the heartbeat's thread

    def _requests(self, running: Sequence[Runs]) -> list[_Request]:
        """With the lock: those to be made again, and new ones."""
        self._forget([held for _, held, _ in running])
        again = [request.again() for request in self._unanswered.values()]
        fresh: dict[tuple[Consumer, str], _Request] = {}
        now = time.monotonic()
        ahead_ms = self._now_ms() - now * 1000
        for consumer, held, runs in running:
            for run in runs:
                place = consumer, run.delivery.queue
                if place not in self._unanswered and self._is_due(run, held, now - _LONG):
                    request = fresh.setdefault(place, _Request(*place))
                    request.starts.append(_start_of(run, ahead_ms))
                    self._claims[run.delivery] = request
        self._unanswered |= fresh
        return [*again, *fresh.values()]

    def _is_due(self, run: Run, held: Collection[LeasedDelivery], before: float) -> bool:
        return (
            0.0 < run.started <= before
            and not run.abandoned
            and run.delivery not in self._claims
            # An event that was acknowledged on receipt is not.
            and run.delivery in held
        )

    def _forget(self, all_held: Sequence[Collection[LeasedDelivery]]) -> None:
        """Drop what is not held any more, though no outcome of it was written here."""
        for delivery in tuple(self._claims):
            if not any(delivery in held for held in all_held):
                del self._claims[delivery]
        for place, request in tuple(self._unanswered.items()):
            if not any(start.delivery in self._claims for start in request.starts):
                del self._unanswered[place]

    async def _make(self, request: _Request) -> None:
        try:
            await request.consumer.record_starts(
                request.queue, request.starts, idempotency=request.idempotency
            )
            request.recorded = True
            with self._lock:
                self._unanswered.pop((request.consumer, request.queue), None)
        finally:
            request.answer.set_result(None)


class _Request:
    """Starts of runs of one queue that are recorded together."""

    def __init__(self, consumer: Consumer, queue: str) -> None:
        self.consumer = consumer
        self.queue = queue
        self.starts: list[RunStart] = []
        self.idempotency = IdempotencyKey()
        self.recorded = False
        self.answer: Future[None] = Future()
        """Done when the try that is under way has ended."""

    def again(self) -> _Request:
        self.answer = Future()
        return self


def _start_of(run: Run, ahead_ms: float) -> RunStart:
    started_ms = int(run.started * 1000 + ahead_ms)
    return RunStart(run.delivery, run.envelope.task, run.attempt, started_ms)
