"""Workers that are killed while events flow to three groups, and what must be true afterwards."""

from __future__ import annotations

import asyncio
import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from headrace.client.topic.topic import Topic
from headrace.core.queue_names import group_queue
from headrace.store.contract import Store
from headrace.store.values import Counts
from tests.faults import post
from tests.faults.crew import LONG, Crew, WorkerProcess, eventually
from tests.faults.grinding import leftovers

LOG = "@orders"
# Bytes that all groups together write of an event.
_LEAST_WRITTEN = 180
QUEUES = {group: group_queue("orders", group) for group in post.GROUPS}


class Line(NamedTuple):
    group: str
    what: str
    customer: str
    number: int
    at: int
    pid: int


@dataclass(frozen=True)
class Flood:
    keys: int = 100
    per_key: int = 20
    workers: int = 3
    kills: int = 8
    batch: int = 250

    @property
    def events(self) -> int:
        return self.keys * self.per_key


class Post:
    """A crew of workers that run `post`, the topic here, and the lines that they have written."""

    def __init__(self, crew: Crew) -> None:
        self.crew = crew
        self._facts = crew.folder / "post.txt"
        crew.env["POST_FACTS"] = str(self._facts)
        self.topic: Topic[post.Order] = post.declare(crew.app)
        self.killed: set[int] = set()

    def start(self, kill: str = "") -> WorkerProcess:
        return self.crew.start("-c", "32", kill=kill, app="tests.faults.post:app")

    @property
    def written(self) -> int:
        """How many bytes of lines there are."""
        return self._facts.stat().st_size if self._facts.exists() else 0

    async def has_written(self, amount: int) -> None:
        await eventually("so much is done", lambda: self.written >= amount, within=5 * LONG)

    async def kill_one_at_work(self, chance: random.Random) -> None:
        """One of those that wrote the latest lines."""

        def at_work() -> list[WorkerProcess]:
            busy = {line.pid for line in self._read(self.written - 10_000)}
            return [worker for worker in self.crew.alive if worker.pid in busy]

        await eventually("a worker is at work", at_work)
        victim = chance.choice(at_work())
        victim.kill()
        self.killed.add(victim.pid)

    @property
    def lines(self) -> list[Line]:
        return self._read(0)

    def _read(self, start: int) -> list[Line]:
        with self._facts.open() as file:
            file.seek(max(0, start))
            rows = [line.split() for line in file]
        whole = [row for row in rows if len(row) == 7 and row[6] == "."]
        return [Line(r[0], r[1], r[2], int(r[3]), int(r[4]), int(r[5])) for r in whole]

    async def store(self) -> Store:
        return (await self.crew.app.session()).store

    async def handled(self, dead: int = 0) -> None:
        """Wait until no group has anything to do."""
        store = await self.store()

        async def idle() -> bool:
            return all([await store.count(each) == Counts(dead=dead) for each in QUEUES.values()])

        await eventually("all groups have handled all events", idle, within=5 * LONG)


async def flood(crew: Crew, plan: Flood) -> None:
    """Publish, kill, wait, and see that every promise was kept."""
    office = Post(crew)
    chance = random.Random(plan.keys)
    for _ in range(plan.workers):
        office.start()
    publishing = asyncio.create_task(publish(office, plan))
    for number in range(1, plan.kills + 1):
        amount = number * plan.events * _LEAST_WRITTEN // (plan.kills + 1)
        await office.has_written(amount)
        await office.kill_one_at_work(chance)
        office.start()
    await publishing
    await office.handled()
    lines = office.lines
    _every_group_has_every_event(lines, plan)
    _order_was_kept(lines, plan, office.killed)
    await _all_is_tidied_up(office)


async def publish(office: Post, plan: Flood) -> None:
    orders = [
        post.Order(f"customer-{key}", number)
        for number in range(plan.per_key)
        for key in range(plan.keys)
    ]
    for at in range(0, len(orders), plan.batch):
        outcome = await office.topic.publish_many(orders[at : at + plan.batch])
        assert outcome.ok, outcome.failed[0]


def _every_group_has_every_event(lines: Sequence[Line], plan: Flood) -> None:
    wanted = {(f"customer-{key}", n) for key in range(plan.keys) for n in range(plan.per_key)}
    for group in post.GROUPS:
        ends = Counter(
            (line.customer, line.number)
            for line in lines
            if line.group == group and line.what == "end"
        )
        assert set(ends) == wanted, f"{group}: {len(wanted - set(ends))} events are missing"


def _order_was_kept(lines: Sequence[Line], plan: Flood, killed: set[int]) -> None:
    """Per key: an event begins only when the one before it has ended, or its worker was killed."""
    by_key: dict[str, list[Line]] = defaultdict(list)
    for line in lines:
        if line.group == "ledger":
            by_key[line.customer].append(line)
    for customer, told in by_key.items():
        ended, running = -1, 0
        for line in told:
            if line.what != "begin":
                assert line.pid == running, f"{customer}: two ran at once at {line}"
                running = 0
                ended = line.number if line.what == "end" else ended
                continue
            assert not running or running in killed, f"{customer}: two ran at once at {line}"
            # One whose worker was killed after its last line may come again.
            assert line.number in (ended, ended + 1), f"{customer}: {line} after {ended}"
            running = line.pid
        assert ended == plan.per_key - 1


async def _all_is_tidied_up(office: Post) -> None:
    store = await office.store()

    async def trimmed() -> bool:
        return (await store.lengths([LOG]))[LOG] == 0

    await eventually("the log is trimmed to its retention", trimmed)
    for worker in office.crew.alive:
        await worker.works()
        assert await worker.stopped() == 0, worker.log
    for queue in QUEUES.values():
        assert await store.disband(queue)
    left = leftovers(office.crew)
    assert not left, left


async def die_at(crew: Crew, moment: str) -> None:
    """A worker ends right before or after the store has done something; another does the rest."""
    office, plan = Post(crew), Flood(keys=5, per_key=8)
    await publish(office, plan)
    dying = office.start(kill=moment)
    assert await dying.ended() == -9
    office.killed.add(dying.pid)
    office.start()
    await office.handled()
    _every_group_has_every_event(office.lines, plan)
    _order_was_kept(office.lines, plan, office.killed)
