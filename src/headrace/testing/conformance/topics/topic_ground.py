"""The base class and helpers of the conformance tests of topics."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from headrace.core.job import ids
from headrace.core.job.constraints import NO_CONSTRAINTS, Constraints
from headrace.core.job.envelope import NO_OVERRIDES, Overrides, encode_envelope
from headrace.core.job.ids import JobId
from headrace.core.job.outcome import DONE, Outcome
from headrace.core.job.parcel import Parcel
from headrace.core.queue_names import group_queue, log_name
from headrace.store.contract import Store, StoreConsumer
from headrace.store.topics import Group, GroupState, Position, Published
from headrace.store.values import Counts
from headrace.testing.conformance.ground import Ground

TOPIC = "orders"
TASK = "@orders"
LOG = log_name(TOPIC)
BILLING = group_queue(TOPIC, "billing")
AUDIT = group_queue(TOPIC, "audit")

NEW = Position("new")
START = Position("start")
PLAIN = Group()
ORDERED = Group(ordered=True)
WEEK_MS = 7 * 86_400_000

of_each_kind = pytest.mark.parametrize("group", [PLAIN, ORDERED], ids=["plain", "ordered"])


class TopicGround(Ground):
    """Short verbs for the tests: publish, join, handle all."""

    async def publish(
        self, store: Store, count: int = 1, *, key: str = "", log: str = LOG
    ) -> list[JobId]:
        """Publish new events, in order."""
        return await self.put(store, [event(key=key) for _ in range(count)], log=log)

    async def put(self, store: Store, events: Sequence[Parcel], *, log: str = LOG) -> list[JobId]:
        assert await store.publish(log, events) == Published(len(events))
        return [item.job_id for item in events]

    async def join(
        self, store: Store, *queues: str, group: Group = PLAIN, begin: Position = START
    ) -> None:
        """Create groups that did not exist before."""
        for queue in queues or (BILLING,):
            assert await store.join(queue, group, begin)

    def member(self, store: Store, *queues: str, name: str = "") -> StoreConsumer:
        """A consumer of one group, if no others are named."""
        return self.worker(store, name, queues or (BILLING,))

    async def handle_all(
        self,
        store: Store,
        member: StoreConsumer,
        outcome: Outcome = DONE,
        *,
        queue: str = BILLING,
        at_once: int = 100,
    ) -> list[JobId]:
        """Do what workers do until the group has taken its whole log and nothing can go on; returns
        the events that were handled, in order."""
        handled: list[JobId] = []
        idle = 0
        while idle < 10:
            ran = await self.run_all(store, member, outcome, queues=[queue], at_once=at_once)
            handled += ran
            if not (await store.count(queue)).waiting:
                return handled
            idle = 0 if ran else idle + 1
        raise AssertionError(f"nobody is given what waits: {await store.count(queue)}")

    async def group(self, store: Store, queue: str = BILLING) -> GroupState:
        """The present state of a group that must exist."""
        name, _, topic = queue.partition("@")
        (states,) = (await store.groups([f"@{topic}"])).values()
        (found,) = [state for state in states if state.name == name]
        assert found.counts == await store.count(queue)
        return found

    async def in_log(self, store: Store, log: str = LOG) -> list[JobId]:
        """All events of the log, read page by page."""
        keys: list[JobId] = []
        cursor = ""
        while page := await store.read(log, cursor):
            keys += [item.job_id for item in page]
            cursor = page[-1].cursor
        assert (await store.lengths([log]))[log] == len(keys)
        return keys

    async def trim_to(
        self,
        store: Store,
        length: int,
        *,
        retention_ms: int = 0,
        gone_after_ms: int = WEEK_MS,
        log: str = LOG,
    ) -> list[str]:
        """Trim as workers do until the log has this length; returns the groups that were gone."""
        gone: list[str] = []
        for _ in range(60):
            trimmed = await store.trim(log, retention_ms=retention_ms, gone_after_ms=gone_after_ms)
            gone += trimmed.gone
            if not trimmed.more:
                if (await store.lengths([log]))[log] <= length:
                    break
                await self.pass_time(0.25)
        assert (await store.lengths([log]))[log] == length
        return sorted(set(gone))

    async def settled(self, store: Store, *queues: str) -> None:
        """Nothing of these groups is waiting, running, scheduled, blocked or dead."""
        for queue in queues or (BILLING,):
            assert await store.count(queue) == Counts()
            state = await self.group(store, queue)
            assert (state.behind, state.oldest_ms) == (0, None)


def event(
    event_id: str | None = None,
    *,
    key: str = "",
    delay_ms: int | None = None,
    at_ms: int | None = None,
    payload: bytes = b"\x90",
    task: str = TASK,
) -> Parcel:
    own = ids.new_id() if event_id is None else ids.to_id(event_id)
    overrides = Overrides(key=key) if key else NO_OVERRIDES
    envelope = encode_envelope(own, task, payload, overrides)
    return Parcel(own, envelope, delay_ms, at_ms, Constraints(lane=key) if key else NO_CONSTRAINTS)


def keys(events: Sequence[Parcel]) -> list[JobId]:
    return [item.job_id for item in events]
