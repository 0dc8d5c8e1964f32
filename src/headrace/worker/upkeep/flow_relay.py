"""Relays the ends of jobs to jobs in other queues that wait for them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from headrace.errors import StoreError
from headrace.store.contract import Listener, ListenerHandle, Store, Upkeep
from headrace.store.deaths import DeathListener
from headrace.store.values import FlowMessage
from headrace.worker.service import POLL, QueuePoller

_BATCH = 500
_HOLD = 0.05


class FlowRelay(QueuePoller):
    """Relays the flow messages of each queue. A message is removed after it was delivered: it may
    be delivered twice, which changes nothing, but is never lost."""

    name = "flow relay"

    def __init__(
        self,
        store: Store,
        upkeep: Upkeep,
        queues: Sequence[str],
        monotonic: Callable[[], float] = time.monotonic,
        on_deaths: DeathListener | None = None,
    ) -> None:
        super().__init__(queues, monotonic)
        self._on_deaths = on_deaths
        self._store = store
        self._upkeep = upkeep
        self._stuck = dict.fromkeys(queues, 0)

    async def poll(self, queue: str) -> float:
        # Messages that cannot be delivered stay the oldest: ask for that many more.
        asked = _BATCH + self._stuck[queue]
        messages = await self._upkeep.flow_messages(queue, asked)
        if not messages:
            # Most notifications are for the promoter. Where there are messages, more may follow at
            # once.
            self.delay(queue, _HOLD)
        delivered, trouble = await self._deliver(messages)
        if delivered:
            await self._upkeep.ack_flow_messages(queue, delivered)
        self._stuck[queue] = len(messages) - len(delivered)
        if trouble is not None:
            raise trouble
        return 0.0 if len(messages) >= asked else POLL

    async def wake_on(self, queue: str, listener: Listener) -> ListenerHandle:
        return await self._upkeep.on_due(queue, listener)

    async def _deliver(
        self, messages: Sequence[FlowMessage]
    ) -> tuple[list[FlowMessage], StoreError | None]:
        """The delivered messages, and the error if some were not. A queue that cannot be reached
        holds back only its own."""
        delivered: list[FlowMessage] = []
        trouble: StoreError | None = None
        for queue, batch in _by_queue(messages).items():
            try:
                deaths = await self._store.arrive(queue, [message.arrival for message in batch])
            except StoreError as error:
                trouble = error
            else:
                delivered += batch
                if deaths and self._on_deaths is not None:
                    self._on_deaths(deaths)
        return delivered, trouble


def _by_queue(messages: Sequence[FlowMessage]) -> dict[str, list[FlowMessage]]:
    batches: dict[str, list[FlowMessage]] = {}
    for message in messages:
        batches.setdefault(message.queue, []).append(message)
    return batches
