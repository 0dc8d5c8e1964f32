"""When the events of a group are acknowledged, and when their slots are free again."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from headrace.client.delivery import Fate
from headrace.core.job.delivery import LeasedDelivery
from headrace.core.job.history import decode_history
from headrace.core.job.outcome import DONE, LEFT, Done, Outcome, Released
from headrace.errors import LeaseLost, StoreUnavailable
from headrace.store.contract import Settlement
from headrace.worker.consume.settler import Settle, Settler
from headrace.worker.run.ack_policy import Manner
from headrace.worker.run.executor import Executor
from headrace.worker.run.run import Run
from headrace.worker.run.slots import Slots

log = logging.getLogger("headrace.worker")

Died = Callable[[str], None]
"""Called with the queue of a group in which an event went dead."""


class OnSuccess:
    """Each event keeps its slot until its outcome is written, whatever that is."""

    receive: Callable[[Run], None] | None = None
    by_hand: Callable[[LeasedDelivery, Fate], None] | None = None
    failed = 0
    """Events which were not handled, or whose handler failed, and that nobody will retry."""

    def __init__(self, slots: Slots, died: Died | None = None) -> None:
        self._slots = slots
        self._died = died
        self._dying: set[LeasedDelivery] = set()

    def attach(self, settler: Settler, executor: Executor) -> None:
        self._settler = settler
        self._executor = executor

    def settling(self, settler: Settler) -> Settle:
        """What the executor is to call with each outcome."""
        return settler.put

    @property
    def manner(self) -> Manner:
        return Manner(
            in_flight=self._slots,
            receive=self.receive,
            by_hand=self.by_hand,
            # Only if anyone wants to know of deaths.
            dying=None if self._died is None else self.dying,
        )

    @property
    def waiting(self) -> bool:
        """Whether events wait for something to be written before they can begin."""
        return False

    def close(self) -> None:
        """Nothing more will be written."""

    def dying(self, delivery: LeasedDelivery) -> None:
        """An event is judged dead; it is so when that is written."""
        self._dying.add(delivery)

    def settled(self, settlements: Sequence[Settlement], lost: Sequence[LeasedDelivery]) -> None:
        self._slots.give_back(len(settlements))
        if self._dying:
            self._tell_of_deaths(settlements)

    def _tell_of_deaths(self, settlements: Sequence[Settlement]) -> None:
        for item in settlements:
            if item.delivery in self._dying:
                self._dying.discard(item.delivery)
                if self._died is not None:
                    self._died(item.delivery.queue)


class ByHand(OnSuccess):
    """The handler says what became of each event, and is told when that is written. An event that
    it drops without a word keeps its lease until that is over, but not its slot."""

    def __init__(self, slots: Slots, died: Died | None = None) -> None:
        super().__init__(slots, died)
        self.by_hand = self._await_writing
        self._fates: dict[LeasedDelivery, Fate] = {}

    def settling(self, settler: Settler) -> Settle:
        return self._settle

    def settled(self, settlements: Sequence[Settlement], lost: Sequence[LeasedDelivery]) -> None:
        super().settled(settlements, lost)
        for item in settlements:
            fate = self._fates.pop(item.delivery, None)
            if fate is not None:
                fate.written(_lost(item.delivery) if item.delivery in lost else None)

    def close(self) -> None:
        for fate in self._fates.values():
            fate.written(StoreUnavailable("the worker ended before the store could be told"))
        self._fates.clear()

    def _await_writing(self, delivery: LeasedDelivery, fate: Fate) -> None:
        self._fates[delivery] = fate

    def _settle(self, delivery: LeasedDelivery, outcome: Outcome) -> None:
        if outcome is LEFT:
            self._fates.pop(delivery, None)
            self._settler.leave(delivery)
            self._slots.give_back(1)
        else:
            self._settler.put(delivery, outcome)


class OnReceive(OnSuccess):
    """Each event is acknowledged, and that is written, before its handler runs: it is handled at
    most once. What fails is logged and counted; its slot is free when the handler has ended."""

    def __init__(self, slots: Slots, died: Died | None = None) -> None:
        super().__init__(slots, died)
        self.receive = self._acknowledge
        self._unwritten: dict[LeasedDelivery, Run] = {}
        self._handled: set[LeasedDelivery] = set()

    def settling(self, settler: Settler) -> Settle:
        return self._settle

    @property
    def waiting(self) -> bool:
        return bool(self._unwritten)

    def settled(self, settlements: Sequence[Settlement], lost: Sequence[LeasedDelivery]) -> None:
        if self._dying:
            self._tell_of_deaths(settlements)
        for item in settlements:
            run = self._unwritten.pop(item.delivery, None)
            if run is None or item.delivery in lost:
                self._slots.give()
            else:
                self._handled.add(item.delivery)
                self._executor.place(run)

    def _acknowledge(self, run: Run) -> None:
        delivery = run.delivery
        delivery.task = run.envelope.task
        self._unwritten[delivery] = run
        self._settler.put(delivery, DONE)

    def _settle(self, delivery: LeasedDelivery, outcome: Outcome) -> None:
        if delivery not in self._handled:
            # It was never fit to be handled, and is settled as usual.
            self._settler.put(delivery, outcome)
            return
        self._handled.discard(delivery)
        self._dying.discard(delivery)
        self._slots.give()
        if not isinstance(outcome, Done):
            self.failed += 1
            log.error(
                "event %s was acknowledged on receipt, failed, and is lost to %s: %s",
                *(delivery.key_text, delivery.queue, _why(outcome)),
                extra=delivery.fields,
            )


class Unacknowledged(OnSuccess):
    """Nobody waits for what becomes of an event. What fails is logged and counted."""

    def settling(self, settler: Settler) -> Settle:
        return self._settle

    def _settle(self, delivery: LeasedDelivery, outcome: Outcome) -> None:
        self._settler.forget(delivery)
        self._slots.give()
        if not isinstance(outcome, (Done, Released)):
            self.failed += 1
            log.error(
                "the broadcast of event %s failed: %s",
                *(delivery.key_text, _why(outcome)),
                extra=delivery.fields,
            )


def _lost(delivery: LeasedDelivery) -> LeaseLost:
    return LeaseLost(f"event {delivery.key_text} went to another worker before it was settled")


def _why(outcome: Outcome) -> str:
    """What is known of a failure that is written nowhere else."""
    attempts = decode_history(getattr(outcome, "history", b"")).attempts
    if not attempts:
        return "it was cut short"
    last = attempts[-1]
    return last.traceback or f"{last.error_type} {last.error_text}".strip()
