"""Asks the store whether jobs with limits may start."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from headrace.core.job.delivery import LeasedDelivery
from headrace.core.job.failure import GateClosed
from headrace.errors import StoreError, StoreUnavailable
from headrace.store.contract import Consumer
from headrace.store.values import IdempotencyKey
from headrace.worker.logs.store_outage import level_of
from headrace.worker.run.batcher import BatchRun
from headrace.worker.run.run import Run
from headrace.worker.service import longer_pause

log = logging.getLogger("headrace.worker")


class Admitter:
    """Counts starts. Jobs of one queue that ask at the same time share one round trip; a store that
    fails is waited for."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._loop = asyncio.get_running_loop()
        self._asking: dict[str, _Questions] = {}
        self._askers: set[asyncio.Task[None]] = set()

    async def count_start(self, run: Run, refuse: Callable[[Run, GateClosed], None]) -> None:
        """Have the start of a run counted; `GateClosed` if it may not start. Jobs of a batch
        that may not start are left out and refused."""
        if not isinstance(run, BatchRun):
            await self.count_delivery(run.delivery)
            return
        limited = [member for member in run.members if member.limited]
        gates = await asyncio.gather(*(self.ask(member.delivery) for member in limited))
        for member, gate in zip(limited, gates, strict=True):
            if gate and not member.abandoned:
                run.leave_out(member)
                refuse(member, GateClosed(gate))
        if not run.members:
            raise GateClosed(gates[0])

    async def count_delivery(self, delivery: LeasedDelivery) -> None:
        """Have the start of one delivery counted, which is in no batch; `GateClosed` if it may not
        start."""
        gate = await self.ask(delivery)
        if gate:
            raise GateClosed(gate)

    def ask(self, delivery: LeasedDelivery) -> asyncio.Future[str]:
        """The gate at which the job must wait; empty if its start has been counted."""
        answer: asyncio.Future[str] = self._loop.create_future()
        questions = self._asking.get(delivery.queue)
        if questions is None:
            questions = self._asking[delivery.queue] = {}
            asker = asyncio.create_task(self._ask_all(delivery.queue), name="headrace-admitter")
            self._askers.add(asker)
            asker.add_done_callback(self._askers.discard)
        questions[delivery] = answer
        return answer

    async def _ask_all(self, queue: str) -> None:
        """Ask until there are no more questions; those that come meanwhile go together in the next
        call."""
        try:
            while questions := self._asking[queue]:
                self._asking[queue] = {}
                await self._answer(queue, questions)
        finally:
            # If this task was cancelled: nobody must wait for an answer for ever.
            _fail(self._asking.pop(queue), _interrupted(queue))

    async def _answer(self, queue: str, questions: _Questions) -> None:
        try:
            refused = await self._refused(queue, questions)
        except Exception as error:
            _fail(questions, error)
        except BaseException:
            _fail(questions, _interrupted(queue))
            raise
        else:
            for delivery, answer in questions.items():
                if not answer.done():
                    answer.set_result(refused.get(delivery, ""))

    async def _refused(self, queue: str, questions: _Questions) -> dict[LeasedDelivery, str]:
        pause = 0.0
        # The same at each try, also if some no longer wait: the idempotency key names one change.
        deliveries = [d for d, answer in questions.items() if not answer.done()]
        idempotency = IdempotencyKey()
        while any(not answer.done() for answer in questions.values()):
            try:
                return await self._consumer.begin(queue, deliveries, idempotency=idempotency)
            except StoreError as error:
                if not pause:
                    log.log(
                        level_of(error),
                        "jobs of queue %r wait for their limits: %s",
                        *(queue, error),
                        extra={"queue": queue},
                    )
                pause = longer_pause(pause)
                await asyncio.sleep(pause)
        return {}


_Questions = dict[LeasedDelivery, asyncio.Future[str]]


def _fail(questions: _Questions, error: Exception) -> None:
    for answer in questions.values():
        if not answer.done():
            answer.set_exception(error)


def _interrupted(queue: str) -> StoreError:
    return StoreUnavailable(f"the store was not asked whether jobs of queue {queue!r} may start")
