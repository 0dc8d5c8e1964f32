"""Puts events into the log of a topic, in their order."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence

from headrace.client.send.coalescer import Coalescer, bounded
from headrace.client.send.tries import Tries
from headrace.core.confirming import UNCONFIRMED
from headrace.core.job.parcel import Parcel
from headrace.core.sends import Sends
from headrace.errors import (
    EnqueueUnknown,
    HeadraceError,
    StoreError,
    StoreUnavailable,
    TopicFull,
)
from headrace.store.contract import Store
from headrace.store.topics import Bound, Published
from headrace.store.values import IdempotencyKey

Missing = Mapping[int, HeadraceError]
"""Error by index, for each event that is not, or may not be, published."""
_NONE_MISSING: Missing = {}


class EventDropped(HeadraceError):
    """A full topic has dropped the event, as it is declared to: nothing has failed."""


class LogSender(Coalescer[HeadraceError]):
    """Publishes the events of one log, with one `confirm` for all."""

    confirm = UNCONFIRMED

    def __init__(self, store: Store, log: str, sends: Sends, bound: Bound | None) -> None:
        super().__init__()
        self._store = store
        self._log = log
        self._sends = sends
        self._bound = bound

    def _put(self, events: Sequence[Parcel], custom_ids: bool) -> Awaitable[Missing]:
        put = self._publish_all(events, custom_ids)
        return self._sends.timed(self._log, events, put, bool) if self._sends.on else put

    async def _publish_all(self, events: Sequence[Parcel], custom_ids: bool) -> Missing:
        """Batch after batch until one fails: no later event may be before it in the log."""
        done = 0
        refused: dict[int, HeadraceError] = {}
        for batch in bounded(events):
            try:
                answer = await self._publish(batch, custom_ids)
            except EnqueueUnknown as error:
                end = done + len(batch)
                missing: dict[int, HeadraceError] = dict.fromkeys(range(done, end), error)
                why = StoreUnavailable(f"not published, after others failed: {error}")
                return refused | missing | dict.fromkeys(range(end, len(events)), why)
            except HeadraceError as error:
                return refused | dict.fromkeys(range(done, len(events)), error)
            if answer.refused:
                refused |= {done + at: EventDropped() for at in answer.refused}
            done += answer.taken
            if answer.taken < len(batch):
                return dict.fromkeys(range(done, len(events)), self._full())
        return refused or _NONE_MISSING

    async def _publish(self, events: Sequence[Parcel], custom_ids: bool) -> Published:
        """Publish in one step, and again after a lost answer: the events are added once."""
        tries: Tries | None = None
        idempotency = IdempotencyKey()
        try:
            while True:
                try:
                    answer = await self._store.publish(
                        self._log,
                        events,
                        bound=self._bound,
                        may_exist=custom_ids or (tries is not None and tries.unsure),
                        idempotency=idempotency,
                        confirm=self.confirm,
                    )
                except StoreError as error:
                    tries = tries or Tries(events)
                    pause = tries.pause_after(error)
                else:
                    return answer
                await asyncio.sleep(pause)
        except (EnqueueUnknown, asyncio.CancelledError):
            self._store.give_up(idempotency)
            raise

    def _full(self) -> TopicFull:
        topic = self._log.removeprefix("@").partition("#")[0]
        return TopicFull(topic, self._bound.most if self._bound else 0)
