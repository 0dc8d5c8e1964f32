"""When deliveries are acknowledged, and when their slots are free again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from headrace.client.topic.manual_settlement import ManualSettlement
from headrace.core.job.delivery import LeasedDelivery
from headrace.core.job.outcome import DONE, LEFT, Dead, Done, Outcome, Released
from headrace.errors import LeaseLost, StoreUnavailable
from headrace.store.contract import Settlement
from headrace.worker.run.in_flight import InFlight
from headrace.worker.run.run import Run
from headrace.worker.run.slots import Slots

Died = Callable[[str], None]
"""Called with the queue in which a job or an event went dead."""


class SettlementQueue(Protocol):
    """What a policy needs of the settler."""

    def put(self, delivery: LeasedDelivery, outcome: Outcome) -> None: ...
    def leave_unsettled(self, delivery: LeasedDelivery) -> None: ...
    def forget(self, delivery: LeasedDelivery) -> None: ...


class AckPolicy:
    """What is done with the deliveries of a consumer loop at three moments. This one is for jobs.
    The outcome of a job is written when its function has ended, and its slot is free by then, so
    that the next job runs while the settler writes."""

    delivery_slots: Slots | None = None
    """The reader's slots, where deliveries keep theirs until they are settled."""
    manual = False
    """Whether functions settle their events themselves."""
    hands_back = True
    """Whether a loop that stops hands back what has not begun, or runs it."""
    returns = True
    """Whether what has not begun can be handed back while the loop goes on."""
    kept = True
    """Whether what this worker does not know stays in the store, for others."""
    unhandled = 0
    """Events that failed or were not handled, and are not retried."""

    _settler: SettlementQueue
    _in_flight: InFlight

    def attach(self, settler: SettlementQueue, in_flight: InFlight) -> None:
        self._settler = settler
        self._in_flight = in_flight

    def received(self, run: Run) -> None:
        """The first moment: a run is read and may begin."""
        self._in_flight.add(run)

    def decided(self, run: Run) -> None:
        """The second: the outcome of a run is known."""
        self._settler.put(run.delivery, run.outcome)

    def settled(self, settlements: Sequence[Settlement], lost: Sequence[LeasedDelivery]) -> None:
        """The third: outcomes are written, but for those of `lost` deliveries."""

    @property
    def waiting(self) -> bool:
        """Whether events wait for something to be written before they can begin."""
        return False

    def close(self) -> None:
        """Nothing more will be written."""


class ReportDeaths(AckPolicy):
    """What happens to jobs of tasks with an `on_dead`: `died` is called for each death that is
    written."""

    def __init__(self, died: Died) -> None:
        self._died = died

    def settled(self, settlements: Sequence[Settlement], lost: Sequence[LeasedDelivery]) -> None:
        report_deaths(settlements, self._died)


class AckOnSuccess(AckPolicy):
    """Each event keeps its slot until its outcome is written, whatever that is. `died` is called
    for each death that is written."""

    hands_back = False

    def __init__(self, slots: Slots, died: Died | None = None) -> None:
        self.delivery_slots = self._slots = slots
        self._died = died

    def settled(self, settlements: Sequence[Settlement], lost: Sequence[LeasedDelivery]) -> None:
        self._slots.give(len(settlements))
        self._report_deaths(settlements)

    def _report_deaths(self, settlements: Sequence[Settlement]) -> None:
        if self._died is not None:
            report_deaths(settlements, self._died)


class AckManually(AckOnSuccess):
    """The function decides about each event, and its call returns when that is written. An event
    that is dropped undecided keeps its lease until that is over, but not its slot."""

    manual = True

    def __init__(self, slots: Slots, died: Died | None = None) -> None:
        super().__init__(slots, died)
        self._unwritten: dict[LeasedDelivery, ManualSettlement] = {}

    def decided(self, run: Run) -> None:
        if run.outcome is LEFT:
            self._settler.leave_unsettled(run.delivery)
            self._slots.give()
            return
        if run.manual is not None:
            self._unwritten[run.delivery] = run.manual
        self._settler.put(run.delivery, run.outcome)

    def settled(self, settlements: Sequence[Settlement], lost: Sequence[LeasedDelivery]) -> None:
        super().settled(settlements, lost)
        for item in settlements:
            manual = self._unwritten.pop(item.delivery, None)
            if manual is not None:
                manual.written(_lost(item.delivery) if item.delivery in lost else None)

    def close(self) -> None:
        for manual in self._unwritten.values():
            manual.written(
                StoreUnavailable("the worker ended before this was written to the store")
            )
        self._unwritten.clear()


class AckOnReceive(AckOnSuccess):
    """Each event is acknowledged, and that is written, before its function runs: it is handled at
    most once. Failures are logged and counted. A slot is free when the function has ended."""

    returns = False

    def __init__(self, slots: Slots, died: Died | None = None) -> None:
        super().__init__(slots, died)
        self._unwritten: dict[LeasedDelivery, Run] = {}
        self._acknowledged: set[LeasedDelivery] = set()

    @property
    def waiting(self) -> bool:
        return bool(self._unwritten)

    def received(self, run: Run) -> None:
        run.note_task()
        self._unwritten[run.delivery] = run
        self._settler.put(run.delivery, DONE)

    def decided(self, run: Run) -> None:
        delivery = run.delivery
        if delivery not in self._acknowledged:
            # It was never fit to be handled, and is settled as usual.
            self._settler.put(delivery, run.outcome)
            return
        self._acknowledged.discard(delivery)
        self._slots.give()
        if not isinstance(run.outcome, Done):
            self.unhandled += 1
            group = delivery.queue
            _report(
                run,
                f"event {delivery.id_text} was acknowledged on receipt, failed, and is lost to "
                f"{group}",
                (f"events of {group}", "were acknowledged on receipt, failed, and are lost"),
            )

    def settled(self, settlements: Sequence[Settlement], lost: Sequence[LeasedDelivery]) -> None:
        self._report_deaths(settlements)
        for item in settlements:
            run = self._unwritten.pop(item.delivery, None)
            if run is None or item.delivery in lost:
                self._slots.give()
            else:
                self._acknowledged.add(item.delivery)
                self._in_flight.add(run)


class NoAck(AckOnSuccess):
    """For broadcasts: nothing is written. Failures are logged and counted."""

    returns = False
    kept = False

    def decided(self, run: Run) -> None:
        delivery = run.delivery
        self._settler.forget(delivery)
        self._slots.give()
        if not isinstance(run.outcome, (Done, Released)):
            self.unhandled += 1
            what = f"the broadcast of event {delivery.id_text} failed"
            _report(run, what, (f"broadcasts of {delivery.queue}", "failed"))


def report_deaths(settlements: Sequence[Settlement], died: Died) -> None:
    for item in settlements:
        if isinstance(item.outcome, Dead):
            died(item.delivery.queue)


def _lost(delivery: LeasedDelivery) -> LeaseLost:
    return LeaseLost(f"event {delivery.id_text} went to another worker before it was settled")


def _report(run: Run, what: str, many: tuple[str, str]) -> None:
    """Log a failure that is written nowhere else."""
    if run.settings.failures is not None:
        run.settings.failures.not_written(run, what, many)
