"""What `tests/faults` does for a moment and `tests/chaos` for longer and harder."""

from __future__ import annotations

import asyncio
import random
import re
import signal
from dataclasses import dataclass, field

from headrace import EnqueueUnknown, HeadraceError, State, StoreUnavailable
from headrace.core.job.history import decode_history
from tests.faults.crew import LONG, Crew, WorkerProcess, eventually
from tests.servers import RedisServer


async def all_done(crew: Crew, ids: list[str], within: float = LONG) -> None:
    """Wait until the jobs have run, and see that each is done and none is dead."""
    await crew.ended(ids, within)
    await crew.idle(within=within)
    store = (await crew.app.session()).store
    job_ids = [crew.app.job(job_id).job_id for job_id in ids]
    for start in range(0, len(job_ids), 500):
        part = job_ids[start : start + 500]
        snapshots = await store.get("default", part)
        assert [each and each.state for each in snapshots] == [State.DONE] * len(part)
    assert await crew.dead() == {}


# Workers that are killed again and again


@dataclass
class Massacre:
    jobs: int = 1000
    workers: int = 3
    every: float = 0.3
    concurrency: int = 4
    kills: int = 8
    """How many workers that are at work; more jobs are sent until then."""
    killed: set[int] = field(default_factory=set)


async def survive_massacre(crew: Crew, plan: Massacre) -> None:
    """Every job is done although workers are killed all the time, and none ran twice but those
    that a killed worker held."""
    rng = random.Random(plan.jobs)
    work = crew.app.tasks["work"]
    sent = await crew.app.enqueue_many(work.call(rng.uniform(0.01, 0.02)) for _ in range(plan.jobs))
    ids = [job.id for job in sent]
    options = ("-c", str(plan.concurrency))
    for _ in range(plan.workers):
        crew.start(*options)
    killing = asyncio.create_task(_kill_again_and_again(crew, plan, rng, options))
    try:
        while len(plan.killed) < plan.kills and not killing.done():
            more = await crew.app.enqueue_many(work.call(rng.uniform(0, 0.02)) for _ in range(100))
            ids += [job.id for job in more]
            await asyncio.sleep(1)
        await crew.ended(ids, within=4 * LONG)
    finally:
        killing.cancel()
        await asyncio.gather(killing, return_exceptions=True)
    await all_done(crew, ids)
    _only_the_killed_lost_jobs(crew, plan)


async def _kill_again_and_again(
    crew: Crew, plan: Massacre, rng: random.Random, options: tuple[str, ...]
) -> None:
    while len(plan.killed) < plan.kills:
        await asyncio.sleep(plan.every)
        await eventually("a worker is at work", lambda: crew.at_work)
        victim = rng.choice(crew.at_work)
        victim.kill()
        plan.killed.add(victim.pid)
        crew.start(*options)


def _only_the_killed_lost_jobs(crew: Crew, plan: Massacre) -> None:
    facts = crew.facts
    ended = {(fact.job, fact.pid) for fact in facts if fact.what == "end"}
    runs = crew.runs()
    again = {job: begun for job, begun in runs.items() if len(begun) > 1}
    cut = sum(
        fact.what == "begin" and fact.pid in plan.killed and (fact.job, fact.pid) not in ended
        for fact in facts
    )
    repeats = sum(len(begun) - 1 for begun in again.values())
    print(  # noqa: T201
        f"{len(plan.killed)} workers killed; {cut} runs cut short, {len(again)} jobs ran again"
    )
    # A machine that is too busy lets a short lease run out: whoever had the job knows, and says so.
    lost = " ".join(line for line in crew.logs.splitlines() if "lease lost: " in line)
    late = {job for job in again if job in lost}
    for job, begun in again.items():
        # Whoever had it before was killed: not one run was repeated for another reason.
        assert job in late or {fact.pid for fact in begun[:-1]} <= plan.killed, begun
    # A run that had ended may be repeated if its outcome was not written when the kill came; what
    # a worker holds of either kind is bounded by its slots and one batch of outcomes.
    assert repeats <= cut + len(plan.killed) * plan.concurrency + len(late)


# A worker that sleeps through its lease


async def outlive_a_frozen_worker(crew: Crew, jobs: int) -> None:
    """What a worker decides after it lost its lease changes nothing, and is counted."""
    gate = crew.folder / "gate"
    frozen = crew.start("-c", str(jobs))
    await frozen.works()
    sent = await crew.app.enqueue_many(crew.app.tasks["hold"].call(str(gate)) for _ in range(jobs))
    ids = [job.id for job in sent]
    await crew.begun(*ids)
    standstill = frozen.stand_still()
    gate.touch()
    awake = crew.start("-c", str(jobs))
    await all_done(crew, ids)
    results = [await job.result(LONG) for job in sent]
    standstill.end()
    await eventually(
        "the late worker knows that it is late",
        lambda: sum(map(int, re.findall(r"lease lost: (\d+) job", frozen.log))) == jobs,
    )
    assert [await job.result(LONG) for job in sent] == results == [2] * jobs
    assert all(len(begun) == 2 for begun in crew.runs().values())
    assert await frozen.stopped() == 0
    assert f"lost leases: {jobs}" in frozen.log
    assert await awake.stopped() == 0
    assert "lost leases" not in awake.log


# A server that dies again and again


@dataclass
class Outages:
    kills: int = 4
    up: float = 0.5
    senders: int = 4
    massacre: Massacre | None = None
    """Workers to be killed meanwhile."""
    stored: list[str] = field(default_factory=list)
    failed: list[HeadraceError] = field(default_factory=list)


async def survive_outages(crew: Crew, server: RedisServer, plan: Outages) -> None:
    """Nothing whose enqueue returned is lost, however often the server dies."""
    for _ in range(2):
        await crew.start("-c", "8").works()
    over = asyncio.Event()
    killing = asyncio.create_task(_kill_if(crew, plan.massacre))
    senders = [asyncio.create_task(_send_until(crew, over, plan)) for _ in range(plan.senders)]
    for _ in range(plan.kills):
        await asyncio.sleep(plan.up)
        server.kill()
        await asyncio.to_thread(server.start)
    await asyncio.sleep(plan.up)
    over.set()
    await asyncio.gather(*senders)
    killing.cancel()
    await asyncio.gather(killing, return_exceptions=True)
    print(f"{len(plan.stored)} jobs sent, {len(plan.failed)} refused")  # noqa: T201
    assert {type(error) for error in plan.failed} <= {StoreUnavailable, EnqueueUnknown}
    assert len(plan.stored) > plan.kills
    await all_done(crew, plan.stored, within=2 * LONG)
    killed = plan.massacre.killed if plan.massacre else set()
    assert all(worker.alive or worker.pid in killed for worker in crew.processes)


async def _kill_if(crew: Crew, plan: Massacre | None) -> None:
    if plan is not None:
        await _kill_again_and_again(crew, plan, random.Random(1), ("-c", "8"))


async def _send_until(crew: Crew, over: asyncio.Event, plan: Outages) -> None:
    while not over.is_set():
        try:
            job = await crew.app.tasks["work"].enqueue(0.01)
        except HeadraceError as error:
            plan.failed.append(error)
        else:
            plan.stored.append(job.id)
        await asyncio.sleep(0.002)


# A job that kills its workers


async def stop_a_deadly_job(crew: Crew, deadly: int, others: int) -> None:
    """Each deadly job is dead after three deliveries; of those around it none is."""
    work = crew.app.tasks["work"]
    before = await crew.app.enqueue_many(work.call(0.3) for _ in range(others // 2))
    bad = [await crew.app.tasks["deadly"].enqueue() for _ in range(deadly)]
    after = await crew.app.enqueue_many(work.call(0.3) for _ in range(others - others // 2))
    over = asyncio.Event()
    keeping = asyncio.create_task(_keep_running(crew, over, "-c", "16"))
    try:
        await crew.ended([job.id for job in before + after], within=2 * LONG)

        async def buried() -> bool:
            return len(await crew.dead()) >= deadly

        await eventually("the deadly jobs are dead", buried, within=2 * LONG)
        await crew.idle()
    finally:
        over.set()
        await keeping
    assert await crew.dead() == {job.id: "crash_loop" for job in bad}
    store = (await crew.app.session()).store
    buried_jobs = (await store.dead("default")).jobs
    assert [decode_history(dead.history).crashes for dead in buried_jobs] == [3] * deadly
    begun = [len(crew.runs()[job.id]) for job in bad]
    # Of two that were held together, one may have had no time to begin.
    assert begun == [3] if deadly == 1 else max(begun) <= 3
    for job in before + after:
        assert await job.status() is State.DONE


async def _keep_running(crew: Crew, over: asyncio.Event, *options: str) -> None:
    """As a supervisor would: whoever ends is replaced."""
    while not over.is_set():
        while len(crew.alive) < 2:
            crew.start(*options)
        await asyncio.sleep(0.05)


# A process that ends right before or right after the store is told


@dataclass(frozen=True)
class Moment:
    """A task, where its worker is killed, and how often each attempt has then begun."""

    task: str
    kill: str
    begun: dict[int, int]
    ends: State = State.DONE
    delay: float = 0.0
    abandoned: bool = False
    """Whether a worker before that one left the job behind."""


MOMENTS = [
    Moment("work", "fetch:before", {1: 1}),
    Moment("work", "fetch:after", {1: 1}),
    Moment("work", "settle:before", {1: 2}),
    Moment("work", "settle:after", {1: 1}),
    Moment("second_time_lucky", "settle:before", {1: 2, 2: 1}),
    Moment("second_time_lucky", "settle:after", {1: 1, 2: 1}),
    Moment("refuse", "settle:before", {1: 2}, State.DEAD),
    Moment("refuse", "settle:after", {1: 1}, State.DEAD),
    Moment("work", "promote:before", {1: 1}, delay=0.2),
    Moment("work", "promote:after", {1: 1}, delay=0.2),
    Moment("work", "reclaim:after", {1: 1}, abandoned=True),
]


async def die_at(crew: Crew, moment: Moment) -> None:
    """The job ends as it should, and ran no more often than it had to."""
    task = crew.app.tasks[moment.task]
    arguments = [0.0] if moment.task == "work" else []
    if moment.delay:
        task = task.options(delay=moment.delay)
    job = await task.enqueue(*arguments)
    if moment.abandoned:
        await _killed(crew.start(kill="fetch:after"))
    await _killed(crew.start(kill=moment.kill))
    survivor = crew.start()

    async def over() -> bool:
        return await job.status() is moment.ends

    await eventually(f"the job is {moment.ends}", over)
    await crew.idle()
    begun: dict[int, int] = {}
    for fact in crew.runs()[job.id]:
        begun[fact.attempt] = begun.get(fact.attempt, 0) + 1
    assert begun == moment.begun, (moment, survivor.log)
    assert len(await crew.dead()) == (moment.ends is State.DEAD)


async def _killed(worker: WorkerProcess) -> None:
    assert await worker.ended() == -signal.SIGKILL, worker.log
