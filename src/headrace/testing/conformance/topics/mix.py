"""A topic and its groups, everything at once, in a random order by seed."""

from __future__ import annotations

from collections import Counter, defaultdict
from random import Random

import pytest

from headrace.core.job.constraints import decode_constraints
from headrace.core.job.delivery import LeasedDelivery
from headrace.core.job.ids import JobId
from headrace.core.job.outcome import DONE, RELEASED, Outcome, Retried
from headrace.store.contract import Store, StoreConsumer, reclaim_every
from headrace.store.topics import Group
from headrace.store.values import Counts
from headrace.testing.conformance.ground import HISTORY, LEASE, known
from headrace.testing.conformance.jobs.leftovers import BRIEF
from headrace.testing.conformance.topics.leftovers import BRIEFLY_DEAD, TopicLeftoversConformance
from headrace.testing.conformance.topics.topic_ground import LOG, NEW, event

GROUPS = {
    "plain@orders": Group(),
    "skipping@orders": Group(ordered=True),
    "blocking@orders": Group(ordered=True, on_failure="block"),
}
STEPS = 120


class Share:
    """What one group has done so far, and what must hold after each step."""

    def __init__(self, mix: TopicMix, queue: str, members: list[StoreConsumer]) -> None:
        self.mix = mix
        self.queue = queue
        self.ordered = GROUPS[queue].ordered
        self.members = members
        self.held: list[tuple[StoreConsumer, LeasedDelivery]] = []
        self.handled: Counter[JobId] = Counter()
        self.started: dict[str, list[JobId]] = defaultdict(list)
        self.busy: dict[str, JobId] = {}

    def begins(self, member: StoreConsumer, delivery: LeasedDelivery) -> None:
        self.held.append((member, delivery))
        lane = self.mix.lanes[delivery.job_id]
        if not (self.ordered and lane):
            return
        assert self.busy.setdefault(lane, delivery.job_id) == delivery.job_id, "one passed another"
        if delivery.job_id not in self.started[lane]:
            self.started[lane].append(delivery.job_id)

    async def settle(
        self, member: StoreConsumer, delivery: LeasedDelivery, outcome: Outcome
    ) -> None:
        assert await self.mix.ground.settle(member, [delivery], outcome) == []
        if outcome is DONE:
            self.handled[delivery.job_id] += 1
        if outcome in (DONE, BRIEFLY_DEAD) and self.ordered:
            self.busy.pop(self.mix.lanes[delivery.job_id], None)


class TopicMix:
    """Random steps on one topic."""

    def __init__(self, ground: TopicMixConformance, store: Store, seed: int) -> None:
        self.ground = ground
        self.store = store
        self.chance = Random(seed)
        self.lanes: dict[JobId, str] = {}
        self.logged: list[JobId] = []
        self._cursor = ""
        self.shares = [
            Share(self, queue, [ground.member(store, queue) for _ in "12"]) for queue in GROUPS
        ]

    async def step(self) -> None:
        share = self.chance.choice(self.shares)
        acts = [self.publish, self.take, self.settle, self.die, self.go_on]
        (act,) = self.chance.choices(acts, [3, 6, 6, 0.3, 3])
        await act(share)

    async def publish(self, _: Share) -> None:
        events = [
            event(
                key=self.chance.choice(["", "a", "b", "c"]),
                delay_ms=self.chance.choice([None, None, None, 20]),
            )
            for _ in range(self.chance.randint(1, 5))
        ]
        self.lanes |= {item.job_id: item.constraints.lane for item in events}
        await self.ground.put(self.store, events)

    async def take(self, share: Share) -> None:
        member = self.chance.choice(share.members)
        for delivery in known(await member.fetch(self.chance.randint(1, 4), 0)):
            if share.ordered:
                assert decode_constraints(delivery.constraints).lane == self.lanes[delivery.job_id]
            share.begins(member, delivery)

    async def settle(self, share: Share) -> None:
        if not share.held:
            return
        member, delivery = share.held.pop(self.chance.randrange(len(share.held)))
        if not (await member.renew([delivery])):
            outcomes: list[Outcome] = [
                DONE,
                Retried(0, HISTORY),
                Retried(15, HISTORY),
                BRIEFLY_DEAD,
                RELEASED,
            ]
            (outcome,) = self.chance.choices(outcomes, [6, 1, 1, 1, 1])
            await share.settle(member, delivery, outcome)

    async def die(self, share: Share) -> None:
        """One member stops; another takes its place."""
        member = share.members.pop(0)
        share.held = [pair for pair in share.held if pair[0] is not member]
        share.members.append(self.ground.member(self.store, share.queue))

    async def go_on(self, share: Share) -> None:
        await self.ground.pass_time(0.01)
        for queue in (LOG, share.queue):
            await share.members[0].promote(queue)
        await self.reclaim(share)
        for item in await self.store.read(LOG, self._cursor, limit=1000):
            self.logged.append(item.job_id)
            self._cursor = item.cursor
        await self.store.trim(LOG, retention_ms=0, gone_after_ms=86_400_000)

    async def reclaim(self, share: Share) -> None:
        # More crashes than a job may have make it dead, but in the worker.
        for delivery in known(await share.members[0].reclaim(share.queue, 5, last_chance=True)):
            share.begins(share.members[0], delivery)

    async def finish(self, share: Share) -> None:
        """Run until all published events are done."""
        for _ in range(400):
            for _ in range(len(share.held)):
                member, delivery = share.held.pop()
                if not await member.renew([delivery]):
                    await share.settle(member, delivery, DONE)
            dead = [job.job_id for job in (await self.store.dead(share.queue)).jobs]
            assert await self.store.replay(share.queue, dead) == [True] * len(dead)
            await self.go_on(share)
            await self.take(share)
            if len(share.handled) == len(self.lanes) and not share.held:
                return
            await self.ground.pass_time(reclaim_every(LEASE) * 0.3)
        missing = len(self.lanes) - len(share.handled)
        raise AssertionError(f"{share.queue}: {missing} events were never handled")


class TopicMixConformance(TopicLeftoversConformance):
    @pytest.mark.parametrize("seed", range(3))
    async def test_each_group_handles_each_event_once_and_in_order_whatever_happens(
        self, store: Store, seed: int
    ) -> None:
        for queue, group in GROUPS.items():
            await self.join(store, queue, group=group, begin=NEW)
        mix = TopicMix(self, store, seed)
        for _ in range(STEPS):
            await mix.step()
        for share in mix.shares:
            await mix.finish(share)
            assert set(share.handled.values()) == {1}
            for lane, started in share.started.items():
                assert started == [key for key in mix.logged if mix.lanes[key] == lane]
        await self.trim_to(store, 0)
        await self.all_leave(store)

    async def all_leave(self, store: Store) -> None:
        for worker in self._workers:
            await worker.close()
        for queue in GROUPS:
            assert await store.count(queue) == Counts()
            assert await store.disband(queue)
        await self.pass_time(BRIEF / 1000 * 2)
        assert await self.left_behind(store) == []
