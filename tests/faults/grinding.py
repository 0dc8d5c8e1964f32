"""Workers that are killed while jobs with keys, limits, batches, flows and schedules run, and what
must be true afterwards."""

from __future__ import annotations

import asyncio
import os
import random
import sqlite3
from collections import defaultdict
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from redis import Redis

from headrace import Headrace, chain, group
from tests.faults.crew import LONG, Crew, eventually

# What an empty store has too, or what expires by itself; a stream stays when it is empty.
KEPT_KEYS = (
    "ready",
    "dead",
    "levels",
    "epoch",
    "reclaims",
    "events",
    "facts",
    "ticks",
    "queues",
    "values",
)
KEPT_TABLES = {
    "queues", "reclaims", "numbers", "results", "facts", "counters", "kv", "ticks", "starts",
    "accounts", "topics", "flow_parts", "history", "shelves", "sqlite_sequence", "sqlite_stat1",
}  # fmt: skip
QUEUES = ("default", "left", "right", "clock", "press")


class Line(NamedTuple):
    what: str
    name: str
    number: int
    at: float
    pid: int


@dataclass
class Grinding:
    keys: int = 12
    per_key: int = 12
    limited: int = 25
    pressed: int = 60
    gathered: int = 60
    flows: int = 12
    failing: int = 6
    workers: int = 3
    kills: int = 8
    every: float = 0.35
    clocks: Sequence[float] = (0.0,)


class Mill:
    """A crew of workers that run `mill`, and the lines they have written."""

    def __init__(self, crew: Crew) -> None:
        self.crew = crew
        self._facts = crew.folder / "mill.txt"
        crew.env["MILL_FACTS"] = os.environ["MILL_FACTS"] = str(self._facts)
        # Imported here: the module reads its settings from the environment.
        from tests.faults import mill

        self.module = mill
        self.app = _copy(mill.app, crew.app)

    def start(self, clock: float) -> None:
        self.crew.env["MILL_CLOCK"] = str(clock)
        self.crew.start("-c", "8", app="tests.faults.mill:app")

    def repair(self) -> None:
        """Let what failed succeed from now on."""
        self._facts.with_name(f"{self._facts.name}.repaired").touch()

    @property
    def lines(self) -> list[Line]:
        if not self._facts.exists():
            return []
        rows = [line.split() for line in self._facts.read_text().splitlines()]
        whole = [row for row in rows if len(row) == 6 and row[5] == "."]
        return [Line(r[0], r[1], int(r[2]), int(r[3]) / 1e9, int(r[4])) for r in whole]

    @property
    def ticks(self) -> int:
        return len({line.name for line in self.lines if line.what == "tick"})


def _copy(source: Headrace, target: Headrace) -> Headrace:
    """The tasks of `source`, declared with what sending needs to know."""
    for task in source.tasks.values():
        declared = task.declared
        options: dict[str, Any] = {
            "name": task.name,
            "queue": declared.queue,
            "result_ttl": declared.result_ttl,
        }
        for limit in ("concurrency", "key_concurrency"):
            if number := getattr(declared, limit):
                options[limit] = number
        if declared.rate:
            options["rate"] = "10/s"
        if declared.gathering:
            options |= {"batch": declared.batch, "max_wait": declared.max_wait}
            options["batch_key"] = declared.gathering.key
        target.task(**options)(task.function)
    return target


async def grind(crew: Crew, plan: Grinding) -> None:
    """Send, kill, wait, and see that every promise was kept."""
    mill = Mill(crew)
    rng = random.Random(plan.keys)
    clocks = [plan.clocks[at % len(plan.clocks)] for at in range(plan.workers)]
    for clock in clocks:
        mill.start(clock)
    flows = await _send(mill, plan)
    failing = [await mill.app.enqueue(_failing_flow(mill.app.tasks)) for _ in range(plan.failing)]
    for number in range(plan.kills):
        await asyncio.sleep(plan.every)
        if number >= plan.kills // 2:
            mill.repair()
            for flow in failing:
                await flow.resume()
        rng.choice(crew.alive).kill()
        mill.start(plan.clocks[number % len(plan.clocks)])
    for number, flow in enumerate(flows):
        assert await flow.result(2 * LONG) == 2 * sum(range(number + 1, number + 6))
    for flow in failing:
        await _goes_on(flow)
    await _all_ended(mill)
    _order_was_kept(mill.lines, plan)
    _no_window_had_more(mill.lines, mill.module.LIMIT, plan)
    _never_more_at_once(mill.lines, mill.module.PRESSED, mill.module.PRESSES, plan)
    _batches_have_one_key(mill.lines, plan)
    _each_tick_made_one_job(mill.lines, mill.module.EVERY)
    for worker in crew.alive:
        await worker.works()
        assert await worker.stopped() == 0, worker.log
    left = leftovers(crew)
    assert not left, left


async def _send(mill: Mill, plan: Grinding) -> list[Any]:
    tasks = mill.app.tasks
    calls = [
        tasks["ordered"].options(key=f"key-{key}").call(f"key-{key}", number)
        for number in range(plan.per_key)
        for key in range(plan.keys)
    ]
    await mill.app.enqueue_many(calls)
    await mill.app.enqueue_many(tasks["limited"].call(n) for n in range(plan.limited))
    pressed = [
        tasks["pressed"].options(key=f"p-{n % 4}").call(f"p-{n % 4}", n)
        for n in range(plan.pressed)
    ]
    stamped = [tasks["stamped"].call(n) for n in range(plan.pressed)]
    pairs = zip(pressed, stamped, strict=True)
    await mill.app.enqueue_many(call for pair in pairs for call in pair)
    await mill.app.enqueue_many(tasks["gathered"].call(item) for item in _gathering(plan))
    return [await mill.app.enqueue(_flow(tasks, number)) for number in range(plan.flows)]


def _flow(tasks: Any, number: int) -> Any:
    """From one queue to the other and back: five chains, and their sum."""
    chains = [chain(tasks["split"].call(number + at), tasks["double"].call()) for at in range(5)]
    return group(chains).then(tasks["add_up"].call())


def _failing_flow(tasks: Any) -> Any:
    """Half of it fails at first, and one job adds others."""
    calls = [tasks["brittle"].call(number) for number in range(6)]
    return group([*calls, tasks["spread"].call(3)]).then(tasks["add_up"].call())


async def _goes_on(flow: Any) -> None:
    """What failed before it was repaired is replayed, and all the rest is still there."""

    async def ended() -> bool:
        counts = await flow.counts()
        if counts.dead:
            await flow.resume()
        return bool(counts.done == counts.total == 11)

    await eventually("the flow has gone on", ended, within=2 * LONG)
    assert await flow.result(LONG) == sum(range(6)) + 3 + 2 * sum(range(3))


async def _all_ended(mill: Mill) -> None:
    await eventually("the clock has ticked on", lambda: mill.ticks >= 12)
    await mill.app.schedules.pause("tick")
    store = (await mill.app.session()).store

    async def idle() -> bool:
        counts = [await store.count(queue) for queue in QUEUES]
        return not any(c.waiting + c.running + c.scheduled + c.blocked for c in counts)

    await eventually("all jobs have ended", idle, within=3 * LONG)
    for queue in QUEUES:
        dead = await mill.app.admin.dead(queue)
        assert not dead, f"{dead[0].reason}: {dead[0].error_text}"


def _order_was_kept(lines: Sequence[Line], plan: Grinding) -> None:
    """Per key: a job begins only when the one before it has ended, whatever was killed."""
    by_key: dict[str, list[Line]] = defaultdict(list)
    for line in lines:
        if line.what in ("begin", "end", "fail"):
            by_key[line.name].append(line)
    assert len(by_key) == plan.keys
    for key, told in by_key.items():
        ended = -1
        for line in told:
            if line.what == "begin":
                # One whose worker was killed after its last line may come again.
                assert line.number in (ended, ended + 1), f"{key}: {line} after the end of {ended}"
            elif line.what == "end":
                ended = max(ended, line.number)
        assert ended == plan.per_key - 1


def _no_window_had_more(lines: Sequence[Line], most: int, plan: Grinding) -> None:
    starts = sorted(line.at for line in lines if line.what == "start")
    assert len({line.number for line in lines if line.what == "start"}) == plan.limited
    for seconds in range(2, len(starts) // most):
        for first, beyond in zip(starts, starts[most * seconds :], strict=False):
            # Up to a second may pass between the count in the store and the note of the function.
            told = f"{most * seconds + 1} starts within {beyond - first:.3f} s"
            assert beyond - first > seconds - 1, told


def _never_more_at_once(lines: Sequence[Line], of_task: int, of_queue: int, plan: Grinding) -> None:
    """Of a key one, of the task and of the queue so many. A job whose worker was killed keeps its
    places until it is taken over: it counts until it comes again."""
    inside: set[tuple[str, int]] = set()
    left: dict[str, list[int]] = defaultdict(list)
    for line in sorted(lines, key=lambda line: line.at):
        if line.what == "enter":
            inside.add((line.name, line.number))
            keys = [name for name, _ in inside if name != "stamped"]
            assert len(keys) == len(set(keys)), f"{line}: {inside}"
            assert len(keys) <= of_task, f"{line}: {inside}"
            assert len(inside) <= of_queue, f"{line}: {inside}"
        elif line.what == "leave":
            inside.discard((line.name, line.number))
            left[line.name].append(line.number)
    assert sum(len(set(numbers)) for numbers in left.values()) == 2 * plan.pressed
    for key, numbers in left.items():
        in_order = list(dict.fromkeys(numbers))
        assert key == "stamped" or in_order == sorted(in_order), f"{key}: {numbers}"


def _gathering(plan: Grinding) -> list[str]:
    return [f"b{number % 4}-{number}" for number in range(plan.gathered)]


def _batches_have_one_key(lines: Sequence[Line], plan: Grinding) -> None:
    """And are whole: whoever takes one over has all of it."""
    calls = [line.name.split(",") for line in lines if line.what == "gather"]
    by_key = [_gathering(plan)[key::4] for key in range(4)]
    whole = [of[at : at + 5] for of in by_key for at in range(0, len(of), 5)]
    assert all(batch in calls for batch in whole), calls
    # A part of one comes again if the others were settled before the kill.
    assert all(any(set(call) <= set(batch) for batch in whole) for call in calls), calls


def _each_tick_made_one_job(lines: Sequence[Line], every: float) -> None:
    """The id of a job has its tick: no tick is missing and none has two jobs."""
    moments = sorted(
        {
            datetime.fromisoformat(line.name.partition("@")[2])
            for line in lines
            if line.what == "tick"
        }
    )
    for before, after in pairwise(moments):
        assert abs((after - before).total_seconds() - every) < 0.002


def leftovers(crew: Crew) -> list[str]:
    """What of this namespace is in the store and would not be in one where nothing ever ran."""
    url = crew.app.url
    if url.startswith("sqlite"):
        return _left_rows(Path(url.removeprefix("sqlite:///")))
    with Redis.from_url(url) as redis:
        names = list(redis.scan_iter(f"*{crew.app.namespace}*", count=1000))
        return [
            name.decode("latin-1")
            for name in names
            if redis.ttl(name) == -1
            and name.rpartition(b"}:")[2].decode("latin-1").split(":")[-1] not in KEPT_KEYS
            # One that batches were read from.
            and not (name.endswith(b":ready:b") and redis.xlen(name) == 0)
        ]


def _left_rows(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        tables = [
            name
            for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        return [
            name
            for name in tables
            if name not in KEPT_TABLES
            and connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0]
        ]
