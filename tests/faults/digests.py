"""Workers and senders that are killed while batches gather, go, run and are settled."""

from __future__ import annotations

import signal

from headrace import State
from tests.faults.crew import Crew, eventually
from tests.faults.shop import digest

BATCH = digest.declared.batch or 0

MOMENTS = [
    "promote:before",
    # Between the release of a batch and its fetch.
    "promote:after",
    "fetch:before",
    # Between its fetch and its run.
    "fetch:after",
    # Between its run and its end.
    "settle:before",
    "settle:after",
]


def calls(crew: Crew) -> list[list[str]]:
    """The items of each call of the function."""
    return [fact.job.split(",") for fact in crew.facts if fact.what == "call"]


async def die_with_batches(crew: Crew, kill: str) -> None:
    """Each job is done, with its own result, and batches are taken over as a whole."""
    items = [f"a-{n}" for n in range(5)] + ["b-0", "b-1"] + [f"late-{n}" for n in range(4)]
    task = crew.app.tasks["digest"]
    jobs = await crew.app.enqueue_many(task.call(item) for item in items)
    killed = crew.start(kill=kill)
    assert await killed.ended() == -signal.SIGKILL, killed.log
    crew.start()
    assert [await job.result(timeout=60) for job in jobs] == items
    await nothing_left(crew)
    each_call_is_a_batch(crew)
    whole = [items[:3], items[3:5], items[5:7]]
    on_time = [call for call in calls(crew) if not call[0].startswith("late")]
    assert all(batch in on_time for batch in whole), on_time
    # A part of one comes again if the others were settled before the kill.
    assert all(any(set(call) <= set(batch) for batch in whole) for call in on_time), on_time
    assert {item for call in calls(crew) for item in call} == set(items)


async def nothing_left(crew: Crew) -> None:
    store = (await crew.app.session()).store

    async def empty() -> bool:
        counts = await store.count("default")
        return not (counts.waiting or counts.running or counts.scheduled or counts.blocked)

    await eventually("the queue is empty", empty)
    assert await crew.dead() == {}


def each_call_is_a_batch(crew: Crew) -> None:
    """Of one key, not too many, and none of it twice."""
    for call in calls(crew):
        assert len({item.partition("-")[0] for item in call}) == 1, call
        assert len(call) == len(set(call)) <= BATCH, call


async def gather_what_killed_senders_sent(crew: Crew, senders: int, size: int, keys: int) -> None:
    """What they had sent is there, each send as a whole; it gathers and is done, once each."""
    for _ in range(senders):
        before = len(crew.jobs("sent"))
        sender = crew.run("send", "1000", str(size), str(keys))
        await crew.known("sent", before + 2 * size)
        sender.kill()
    told = [crew.app.job(id).job_id for id in crew.jobs("sent")]
    store = (await crew.app.session()).store
    counts = await store.count("default")
    stored = counts.waiting + counts.blocked
    assert stored >= len(told)
    assert stored % size == 0
    # Of each key fewer than a batch are left: the next sender adds to what the last one left.
    assert counts.blocked <= keys * (BATCH - 1)
    crew.start("-c", "50")
    await nothing_left(crew)
    each_call_is_a_batch(crew)
    assert sum(map(len, calls(crew))) >= stored
    for first in range(0, len(told), 1000):
        snapshots = await store.get("default", told[first : first + 1000])
        assert {each and each.state for each in snapshots} == {State.DONE}
