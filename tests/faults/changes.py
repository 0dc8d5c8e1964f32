"""Each request that changes something, with a situation in which doing it twice would show."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import redis

from headrace.core.job import ids
from headrace.core.job.constraints import NO_CONSTRAINTS, Constraints, Gathering, Limit, in_flow
from headrace.core.job.delivery import LeasedDelivery
from headrace.core.job.history_rules import HistoryBounds
from headrace.core.job.ids import JobId
from headrace.core.job.outcome import DONE, RELEASED, Dead, Outcome, Released
from headrace.core.job.parcel import Child
from headrace.core.job.state import State
from headrace.errors import StoreError
from headrace.store.contract import RunStart, Settlement, StoreConsumer
from headrace.store.flow_values import Addition, FlowPart
from headrace.store.queue_values import QueueBound, Rescheduling
from headrace.store.redis.script import Script
from headrace.store.redis.store import RedisStore
from headrace.store.values import Arrival, Counts, IdempotencyKey, JobEnding, Report
from headrace.testing.conformance.ground import HISTORY, QUEUE, Ground, kept, known, parcel
from headrace.testing.conformance.topics.topic_ground import (
    BILLING,
    LOG,
    ORDERED,
    PLAIN,
    START,
    event,
)
from tests.faults.proxy import Fault, Proxy, calls

LEASE = 600.0
LANE = Constraints(lane="a")
LIMITED = Constraints(limits=(Limit("few", 3, 3_600_000),))
EMPTY = Counts()


class Change:
    """One kind of request, made through a wire that may fail. `script` is the one that serves it;
    `keeps` says that whoever repeats it keeps its idempotency key."""

    script = ""
    keeps = False

    def __init__(self, plain: RedisStore, wired: RedisStore) -> None:
        self.plain = plain
        self.store = wired
        self.ground = Ground()
        self.helper = plain.consumer("helper", [QUEUE], LEASE)
        self.worker: StoreConsumer = wired.consumer("worker", [QUEUE], LEASE)

    async def prepare(self) -> None:
        """What must be there before."""

    async def ask(self, idempotency: IdempotencyKey, *, repeat: bool) -> None:
        """Make the request."""
        raise AssertionError

    async def meanwhile(self) -> None:
        """What others do once it has been applied."""

    async def check(self) -> None:
        """That all of this has happened once."""

    async def close(self) -> None:
        await self.helper.close()
        await self.worker.close()

    async def count(self, queue: str = QUEUE) -> Counts:
        return await self.plain.count(queue)

    async def take(self, consumer: StoreConsumer) -> LeasedDelivery:
        (delivery,) = await self.ground.take(consumer, 1)
        return delivery

    async def run_all(self) -> list[JobId]:
        return await self.ground.run_all(self.plain, self.helper)

    async def die(self) -> None:
        taken = await self.take(self.helper)
        await self.ground.settle(self.helper, [taken], Dead("failed", HISTORY))


class Append(Change):
    script = "append"
    keeps = True

    async def prepare(self) -> None:
        self.parcels = [parcel()]

    async def ask(self, idempotency: IdempotencyKey, *, repeat: bool) -> None:
        await self.store.append(QUEUE, self.parcels, may_exist=repeat, idempotency=idempotency)

    async def meanwhile(self) -> None:
        # Nothing is kept of what is done: the store does not know these ids any more.
        assert await self.run_all() == [each.job_id for each in self.parcels]

    async def check(self) -> None:
        assert await self.count() == EMPTY


class Enter(Append):
    """A whole flow, of jobs with a key."""

    script = "append_constrained"

    async def prepare(self) -> None:
        child = parcel("child")
        parent = parcel("parent", constraints=LANE, children=[Child(QUEUE, child.job_id)])
        self.parcels = [parent, parcel("child", constraints=LANE, parents=[parent])]


class Gather(Append):
    """Of four jobs that gather three go as a batch, and one waits for others."""

    script = "append_constrained"

    async def prepare(self) -> None:
        self.notices = await self.helper.on_control(QUEUE, lambda _: None)
        constraints = Constraints(gathering=Gathering("batch:task:a", 3, 3_600_000))
        self.parcels = [parcel(constraints=constraints) for _ in range(4)]

    async def meanwhile(self) -> None:
        taken: list[LeasedDelivery] = []
        while not taken:
            taken = known(await self.helper.fetch(1, 0.05))
        await self.ground.settle(self.helper, taken, DONE)

    async def check(self) -> None:
        assert await self.count() == Counts(blocked=1)

    async def close(self) -> None:
        await self.notices.close()
        await super().close()


class Crowd(Append):
    """A queue that is full drops the oldest job for a new one."""

    script = "append_constrained"

    async def prepare(self) -> None:
        self.waiting = await self.ground.send(self.plain, 3)
        self.parcels = [parcel()]

    async def ask(self, idempotency: IdempotencyKey, *, repeat: bool) -> None:
        bound = QueueBound(3, drops_oldest=True)
        await self.store.append(
            QUEUE, self.parcels, may_exist=repeat, idempotency=idempotency, bound=bound
        )

    async def meanwhile(self) -> None:
        assert await self.run_all() == [*self.waiting[1:], self.parcels[0].job_id]
        await self.ground.send(self.plain, 3)

    async def check(self) -> None:
        assert await self.count() == Counts(waiting=3)


class Settle(Change):
    script = "settle"
    keeps = True
    outcome: Outcome = DONE

    async def prepare(self) -> None:
        await self.plain.append(QUEUE, [parcel(constraints=LANE) for _ in range(3)])
        self.delivery = await self.take(self.worker)

    async def ask(self, idempotency: IdempotencyKey, *, repeat: bool) -> None:
        settlements = [Settlement(self.delivery, self.outcome)]
        lost = await self.worker.settle(QUEUE, settlements, repeat=repeat, idempotency=idempotency)
        assert lost == []

    async def meanwhile(self) -> None:
        await self.take(self.helper)

    async def check(self) -> None:
        # The lane has been opened for one more, and no other has passed.
        assert await self.count() == Counts(running=1, blocked=1)


class Release(Settle):
    outcome = RELEASED

    async def prepare(self) -> None:
        await self.plain.append(QUEUE, [parcel()])
        self.delivery = await self.take(self.worker)

    async def check(self) -> None:
        assert await self.count() == Counts(running=1)


class Move(Settle):
    """A job goes to those of another runner."""

    outcome = Released("thread")

    async def check(self) -> None:
        # It keeps its place in its lane.
        assert await self.count() == Counts(running=1, blocked=2)
        (state,) = await self.plain.survey([QUEUE])
        assert list(state.runners) == ["thread"]


class Publish(Change):
    script = "topics/publish"
    keeps = True

    async def prepare(self) -> None:
        self.event = event()
        await self.plain.join(BILLING, PLAIN, START)
        self.member = self.plain.consumer("member", [BILLING], LEASE)

    async def ask(self, idempotency: IdempotencyKey, *, repeat: bool) -> None:
        await self.store.publish(LOG, [self.event], may_exist=repeat, idempotency=idempotency)

    async def meanwhile(self) -> None:
        (delivery,) = await self.ground.take(self.member, 1)
        await self.ground.settle(self.member, [delivery], DONE)
        await asyncio.sleep(0.002)
        await self.plain.trim(LOG, retention_ms=0, gone_after_ms=3_600_000)

    async def check(self) -> None:
        assert await self.plain.read(LOG) == []
        assert await self.plain.count(BILLING) == EMPTY

    async def close(self) -> None:
        await self.member.close()
        await super().close()


class Promote(Change):
    script = "promote"

    async def prepare(self) -> None:
        await self._schedule()

    async def _schedule(self) -> None:
        await self.plain.append(QUEUE, [parcel(delay_ms=1)])
        await asyncio.sleep(0.005)

    async def ask(self, idempotency: IdempotencyKey, *, repeat: bool) -> None:
        await self.worker.promote(QUEUE)

    async def meanwhile(self) -> None:
        await self._schedule()

    async def check(self) -> None:
        assert await self.count() == Counts(waiting=1, scheduled=1)


class LetGo(Promote):
    """Batches whose time has come."""

    async def _schedule(self) -> None:
        constraints = Constraints(gathering=Gathering("batch:task:a", 3, 1))
        await self.plain.append(QUEUE, [parcel(constraints=constraints) for _ in range(2)])
        await asyncio.sleep(0.005)

    async def check(self) -> None:
        assert await self.count() == Counts(waiting=2, blocked=2)


class Reclaim(Change):
    script = "reclaim"

    async def prepare(self) -> None:
        await self._hand_back()

    async def _hand_back(self) -> None:
        await self.plain.append(QUEUE, [parcel()])
        leaving = self.plain.consumer("leaving", [QUEUE], LEASE)
        await self.ground.take(leaving, 1)
        await leaving.close()

    async def ask(self, idempotency: IdempotencyKey, *, repeat: bool) -> None:
        await self.worker.reclaim(QUEUE, 10, last_chance=True)

    async def meanwhile(self) -> None:
        await self._hand_back()

    async def check(self) -> None:
        assert len(await self.worker.recover([])) == 1
        assert await self.count() == Counts(running=1, waiting=1)


class Cancel(Change):
    script = "cancel"

    async def prepare(self) -> None:
        self.parcel = parcel(delay_ms=3_600_000)
        await self.plain.append(QUEUE, [self.parcel])

    async def ask(self, idempotency: IdempotencyKey, *, repeat: bool) -> None:
        assert await self.store.cancel(QUEUE, [self.parcel.job_id]) == [State.CANCELLED]

    async def meanwhile(self) -> None:
        await self.plain.append(QUEUE, [self.parcel])

    async def check(self) -> None:
        assert await self.count() == Counts(scheduled=1)


class Reschedule(Change):
    script = "reschedule"

    async def prepare(self) -> None:
        self.parcel = parcel(delay_ms=3_600_000)
        await self.plain.append(QUEUE, [self.parcel])

    async def ask(self, idempotency: IdempotencyKey, *, repeat: bool) -> None:
        await self.store.reschedule(QUEUE, [self.parcel.job_id], Rescheduling(delay_ms=0))

    async def meanwhile(self) -> None:
        assert await self.run_all() == [self.parcel.job_id]
        await self.plain.append(QUEUE, [self.parcel])

    async def check(self) -> None:
        assert await self.count() == Counts(scheduled=1)


class Replay(Change):
    script = "replay"

    async def prepare(self) -> None:
        (self.key,) = await self.ground.send(self.plain)
        await self.die()

    async def ask(self, idempotency: IdempotencyKey, *, repeat: bool) -> None:
        await self.store.replay(QUEUE, [self.key])

    async def meanwhile(self) -> None:
        await self.die()

    async def check(self) -> None:
        assert await self.count() == Counts(dead=1)


class Purge(Change):
    script = "purge"

    async def prepare(self) -> None:
        self.parcel = parcel()
        await self._live_and_die()

    async def _live_and_die(self) -> None:
        await self.plain.append(QUEUE, [self.parcel])
        await self.die()

    async def ask(self, idempotency: IdempotencyKey, *, repeat: bool) -> None:
        await self.store.purge(QUEUE, [self.parcel.job_id])

    async def meanwhile(self) -> None:
        await self._live_and_die()

    async def check(self) -> None:
        assert await self.count() == Counts(dead=1)


class Remove(Change):
    script = "remove"

    async def prepare(self) -> None:
        await self.ground.send(self.plain, 3)

    async def ask(self, idempotency: IdempotencyKey, *, repeat: bool) -> None:
        assert await self.store.remove(QUEUE, force=True) == 0

    async def meanwhile(self) -> None:
        await self.ground.send(self.plain)

    async def check(self) -> None:
        assert await self.count() == Counts(waiting=1)


class Forget(Change):
    """Of a job that is sent again under the same id."""

    script = "forget_ended"

    async def prepare(self) -> None:
        self.parcel = parcel()
        for store in (self.plain, self.store):
            store.history_rules.set_default(HistoryBounds())
        await self._live_and_end()

    async def _live_and_end(self) -> None:
        await self.plain.append(QUEUE, [self.parcel])
        taken = await self.take(self.helper)
        await self.ground.settle(self.helper, [taken], kept(b"\x01"))

    async def ask(self, idempotency: IdempotencyKey, *, repeat: bool) -> None:
        await self.store.forget(QUEUE, [self.parcel.job_id])

    async def meanwhile(self) -> None:
        (found,) = await self.plain.get(QUEUE, [self.parcel.job_id], bodies=True)
        assert found is None
        await self._live_and_end()

    async def check(self) -> None:
        (job,) = (await self.plain.history(QUEUE)).jobs
        (found,) = await self.plain.get(QUEUE, [self.parcel.job_id])
        assert job.job_id == self.parcel.job_id
        assert found is not None
        assert found.verdict


class Follow(Change):
    script = "flows/follow"

    async def prepare(self) -> None:
        (self.parent,) = await self.ground.send(self.plain)
        self.child = parcel(parents=[parcel()])
        await self.plain.append(QUEUE, [self.child])

    async def ask(self, idempotency: IdempotencyKey, *, repeat: bool) -> None:
        children = [Child(QUEUE, self.child.job_id)]
        assert await self.store.follow(QUEUE, self.parent, children) is None

    async def check(self) -> None:
        assert await self.count() == Counts(waiting=1, blocked=1)


class Arrive(Change):
    script = "flows/arrive"

    async def prepare(self) -> None:
        self.parent = parcel()
        self.child = parcel(parents=[self.parent])
        await self.plain.append(QUEUE, [self.child])

    async def ask(self, idempotency: IdempotencyKey, *, repeat: bool) -> None:
        arrival = Arrival(self.child.job_id, self.parent.job_id, JobEnding(State.DONE))
        await self.store.arrive(QUEUE, [arrival])

    async def meanwhile(self) -> None:
        assert await self.run_all() == [self.child.job_id]
        await self.plain.append(QUEUE, [self.child])

    async def check(self) -> None:
        assert await self.count() == Counts(blocked=1)


class Resume(Change):
    """A replay that brings back the job that waits for it."""

    script = "replay"

    async def prepare(self) -> None:
        child = parcel("child", parents=[parcel("parent")])
        await self.plain.append(QUEUE, [child])
        self.parent = parcel("parent", children=[Child(QUEUE, child.job_id)])
        await self.plain.append(QUEUE, [self.parent])
        await self.die()

    async def ask(self, idempotency: IdempotencyKey, *, repeat: bool) -> None:
        await self.store.replay(QUEUE, [self.parent.job_id])

    async def meanwhile(self) -> None:
        await self.die()

    async def check(self) -> None:
        assert await self.count() == Counts(dead=2)


class AddParents(Change):
    script = "flows/add_parents"

    async def prepare(self) -> None:
        self.first, self.added = parcel(), parcel()
        self.child = parcel(parents=[self.first])
        await self.plain.append(QUEUE, [self.child])
        self.additions = [Addition(self.child.job_id, self.added.job_id, self.first.job_id)]

    async def ask(self, idempotency: IdempotencyKey, *, repeat: bool) -> None:
        assert await self.store.add_parents(QUEUE, self.additions) == ["waits"]

    async def meanwhile(self) -> None:
        await self.plain.confirm_parents(QUEUE, self.additions)
        for parent in (self.first, self.added):
            arrival = Arrival(self.child.job_id, parent.job_id, JobEnding(State.DONE))
            await self.plain.arrive(QUEUE, [arrival])
        assert await self.run_all() == [self.child.job_id]

    async def check(self) -> None:
        assert await self.count() == EMPTY


class ConfirmParents(AddParents):
    """Of a flow that is sent again under the same ids, and whose added job is not stored yet."""

    script = "flows/confirm_parents"

    async def prepare(self) -> None:
        await super().prepare()
        await self.plain.add_parents(QUEUE, self.additions)

    async def ask(self, idempotency: IdempotencyKey, *, repeat: bool) -> None:
        await self.store.confirm_parents(QUEUE, self.additions)

    async def meanwhile(self) -> None:
        await super().meanwhile()
        await self.plain.append(QUEUE, [self.child])
        await self.plain.add_parents(QUEUE, self.additions)

    async def check(self) -> None:
        arrival = Arrival(self.child.job_id, self.first.job_id, JobEnding(State.DONE))
        await self.plain.arrive(QUEUE, [arrival])
        # What is not confirmed does not count.
        assert await self.run_all() == [self.child.job_id]


class ExtendFlow(Change):
    """Of a job whose queue is removed, and which is sent again under the same id."""

    script = "flows/extend_flow"

    async def prepare(self) -> None:
        self.flow = ids.new_id()
        self.parcel = parcel(constraints=in_flow(self.flow, NO_CONSTRAINTS))
        await self._run()

    async def _run(self) -> None:
        await self.plain.append(QUEUE, [self.parcel])
        await self.take(self.helper)

    async def ask(self, idempotency: IdempotencyKey, *, repeat: bool) -> None:
        assert await self.store.extend_flow(QUEUE, self.parcel.job_id, self.flow, "other") == []

    async def meanwhile(self) -> None:
        assert (await self._part()).queues == ("other",)
        assert await self.plain.remove(QUEUE, force=True) == 0
        await self._run()

    async def _part(self) -> FlowPart:
        return await self.plain.flow_part(QUEUE, self.flow)

    async def check(self) -> None:
        assert (await self._part()).queues == ()


class Begin(Change):
    script = "begin"
    keeps = True

    async def prepare(self) -> None:
        await self.plain.append(QUEUE, [parcel(constraints=LIMITED) for _ in range(4)])
        self.delivery = await self.take(self.worker)

    async def ask(self, idempotency: IdempotencyKey, *, repeat: bool) -> None:
        begun = await self.worker.begin(QUEUE, [self.delivery], idempotency=idempotency)
        assert begun == {}

    async def check(self) -> None:
        # Of three starts an hour, two are left.
        others = known(await self.helper.fetch(10, 0))
        assert await self.helper.begin(QUEUE, others) == {}
        assert len(others) == 2


class RecordStart(Change):
    script = "record_starts"
    keeps = True

    async def prepare(self) -> None:
        await self.ground.send(self.plain)
        self.delivery = await self.take(self.worker)

    async def ask(self, idempotency: IdempotencyKey, *, repeat: bool) -> None:
        start = RunStart(self.delivery, "task", 1, 5000)
        await self.worker.record_starts(QUEUE, [start], idempotency=idempotency)

    async def check(self) -> None:
        kinds = [event.fact.kind for event in await self.plain.events(QUEUE)]
        assert kinds == ["sent", "started"]


class KvSet(Change):
    script = "kv_set"

    async def prepare(self) -> None:
        await self._note(b"before")

    async def _note(self, value: bytes) -> None:
        await self.plain.kv_set("space", "name", value)

    async def ask(self, idempotency: IdempotencyKey, *, repeat: bool) -> None:
        await self.store.kv_set("space", "name", b"after", expected=b"before")

    async def meanwhile(self) -> None:
        await self._note(b"before")

    async def check(self) -> None:
        assert await self.plain.kv_all("space") == {"name": b"before"}


class Rewind(Publish):
    script = "topics/rewind"
    keeps = False

    async def prepare(self) -> None:
        await super().prepare()
        await self.plain.publish(LOG, [self.event])
        await self._handle()

    async def _handle(self) -> None:
        (delivery,) = await self.ground.take(self.member, 1)
        await self.ground.settle(self.member, [delivery], DONE)

    async def ask(self, idempotency: IdempotencyKey, *, repeat: bool) -> None:
        await self.store.rewind(BILLING, START)

    async def meanwhile(self) -> None:
        await self._handle()

    async def check(self) -> None:
        assert await self.plain.count(BILLING) == EMPTY


class Pause(Change):
    script = "pause"

    async def ask(self, idempotency: IdempotencyKey, *, repeat: bool) -> None:
        await self.store.pause(QUEUE)

    async def meanwhile(self) -> None:
        await self.plain.resume(QUEUE)

    async def check(self) -> None:
        assert not (await self.plain.control(QUEUE)).paused


class Tell(Change):
    script = "report"

    async def prepare(self) -> None:
        (self.key,) = await self.ground.send(self.plain)

    async def ask(self, idempotency: IdempotencyKey, *, repeat: bool) -> None:
        await self.store.report(QUEUE, [Report(self.key, lines=("half way",))])

    async def check(self) -> None:
        # After an error it is told again, and may stand there twice; but not by a late request.
        assert set((await self.plain.log(QUEUE, self.key)).lines) == {"half way"}


class Join(Change):
    script = "topics/join"

    async def ask(self, idempotency: IdempotencyKey, *, repeat: bool) -> None:
        await self.store.join(BILLING, ORDERED, START)

    async def meanwhile(self) -> None:
        await self.plain.disband(BILLING)

    async def check(self) -> None:
        assert (await self.plain.groups([LOG]))[LOG] == []


class Disband(Join):
    script = "topics/disband"

    async def prepare(self) -> None:
        await self.plain.join(BILLING, PLAIN, START)

    async def ask(self, idempotency: IdempotencyKey, *, repeat: bool) -> None:
        await self.store.disband(BILLING)

    async def meanwhile(self) -> None:
        # By someone who has not seen it before: it stays removed for those who have.
        other = RedisStore(self.plain.server.url, namespace=self.plain.namespace, crash_limit=3)
        await other.join(BILLING, PLAIN, START)
        await other.close()

    async def check(self) -> None:
        assert len((await self.plain.groups([LOG]))[LOG]) == 1


async def spoiled(change: Change, proxy: Proxy, fault: Fault) -> None:
    """The request is carried out, and its answer does not come as it should."""
    idempotency = IdempotencyKey()
    proxy.spoil(fault, calls(change.script))
    if await _fails(change, idempotency):
        if change.keeps:
            await change.meanwhile()
        await change.ask(idempotency, repeat=True)
    assert proxy.swallowed, "there was no such request"
    if not change.keeps:
        await change.meanwhile()
    await change.check()


async def _fails(change: Change, idempotency: IdempotencyKey) -> bool:
    try:
        await change.ask(idempotency, repeat=False)
    except StoreError:
        return True
    return False


async def delivered_late(change: Change, proxy: Proxy, server: redis.Redis) -> None:
    """The request reaches the server after its own repeat, and changes nothing."""
    idempotency = IdempotencyKey()
    proxy.spoil(Fault.LATE, calls(change.script))
    if await _fails(change, idempotency):
        await change.ask(idempotency, repeat=True)
    await change.meanwhile()
    before = snapshot(server, change.plain.namespace)
    answers = await proxy.deliver_late()
    assert len(answers) == 1, "there was no such request"
    assert snapshot(server, change.plain.namespace) == before, answers
    await change.check()


async def fallen_into_a_hole(change: Change, given_up: asyncio.Barrier) -> None:
    """The request is under way while nothing passes, until nobody waits for its answer any more;
    then it passes, and so does its repeat."""
    idempotency = IdempotencyKey()
    assert await _fails(change, idempotency), "the hole was not deep enough"
    await given_up.wait()
    while await _fails(change, idempotency):  # noqa: ASYNC110
        await asyncio.sleep(0.05)
    await change.meanwhile()
    await change.check()


def snapshot(server: redis.Redis, namespace: str) -> dict[bytes, bytes | None]:
    """All that the server holds of a namespace, but for what expires by itself."""
    names = sorted(server.scan_iter(f"{{{namespace}*", count=1000))
    return {name: server.dump(name) for name in names if server.ttl(name) == -1}


CHANGES: tuple[type[Change], ...] = (
    Append, Enter, Gather, Crowd, Settle, Release, Move, Publish, Promote, LetGo, Reclaim, Cancel,
    Reschedule, Replay, Purge, Remove, Forget, Follow, Arrive, Resume, AddParents, ConfirmParents,
    ExtendFlow, Begin, RecordStart, KvSet, Rewind, Pause, Tell, Join, Disband,
)  # fmt: skip


@asynccontextmanager
async def prepared(
    kind: type[Change], url: str, wired_url: str, namespace: str
) -> AsyncIterator[Change]:
    """A change that can be asked for, of a namespace of its own."""
    plain, wired = (
        RedisStore(each, namespace=namespace, crash_limit=3) for each in (url, wired_url)
    )
    # Known to the server, so that it is one request.
    await plain.links().ask.call("SCRIPT", "LOAD", Script(kind.script).body)
    change = kind(plain, wired)
    await change.prepare()
    try:
        yield change
    finally:
        await change.close()
        await plain.close()
        await wired.close()
