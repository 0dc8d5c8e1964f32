"""What must go on holding: through a server that sleeps, a full disk, and hours of work. Longer and
harder in `tests/chaos`."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from pathlib import Path

from headrace import HeadraceError, StoreFull
from tests.faults.crew import LONG, Crew, WorkerProcess, eventually
from tests.faults.scenarios import all_done
from tests.servers import RedisServer


async def outlive_a_sleeping_server(crew: Crew, server: RedisServer, leases: float) -> None:
    """No job runs twice although the server answers nobody for several leases."""
    gate = crew.folder / "gate"
    workers = [crew.start("-c", "10") for _ in range(3)]
    for worker in workers:
        await worker.works()
    hold, work = crew.app.tasks["hold"], crew.app.tasks["work"]
    held = await crew.app.enqueue_many(hold.call(str(gate)) for _ in range(20))
    await crew.begun(*(job.id for job in held))
    quick = await crew.app.enqueue_many(work.call(0.01) for _ in range(200))
    server.pause()
    await asyncio.sleep(leases * crew.app.lease)
    server.resume()
    await crew.ended(job.id for job in quick)
    # Long enough for whoever thought the jobs abandoned to have taken them.
    await asyncio.sleep(1.5 * crew.app.lease)
    gate.touch()
    ids = [job.id for job in (*held, *quick)]
    await all_done(crew, ids)
    assert Counter(len(begun) for begun in crew.runs().values()) == {1: len(ids)}
    for worker in workers:
        assert await worker.stopped() == 0
        assert "lost leases" not in worker.log


async def outlive_a_full_disk(crew: Crew, disk: Path, rounds: int) -> None:
    """What was accepted is done, and once, although the disk is full again and again."""
    workers = [crew.start("-c", "10") for _ in range(2)]
    for worker in workers:
        await worker.works()
    accepted: list[str] = []
    refused: list[HeadraceError] = []
    for _ in range(rounds):
        over = asyncio.Event()
        sending = asyncio.create_task(_send_until(crew, over, accepted, refused))
        await asyncio.sleep(0.5)
        ballast = disk / "ballast"
        await asyncio.to_thread(_fill, ballast)
        before = len(refused)
        await eventually("a send is refused", lambda: len(refused) > before)  # noqa: B023
        await asyncio.sleep(2.5 * crew.app.lease)
        ballast.unlink()
        before = len(accepted)
        await eventually("a send is accepted", lambda: len(accepted) > before)  # noqa: B023
        over.set()
        await sending
    assert {type(error) for error in refused} == {StoreFull}
    await all_done(crew, accepted, within=3 * LONG)
    assert {len(begun) for begun in crew.runs().values()} == {1}
    for worker in workers:
        assert await worker.stopped() == 0


def _fill(ballast: Path) -> None:
    """Take all the room that there is, to the last page."""
    with ballast.open("wb", buffering=0) as file:
        for size in (65536, 4096, 512):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue


async def _send_until(
    crew: Crew, over: asyncio.Event, accepted: list[str], refused: list[HeadraceError]
) -> None:
    work = crew.app.tasks["work"]
    while not over.is_set():
        try:
            job = await work.options(headers={"ballast": "x" * 500}).enqueue(0.01)
        except HeadraceError as error:
            refused.append(error)
        else:
            accepted.append(job.id)
        await asyncio.sleep(0.005)


async def work_on_in_flat_memory(crew: Crew, seconds: float, growth_mib: float) -> None:
    """Mixed work for a while: after the first third, a worker takes hardly more memory."""
    worker = crew.start("-c", "50", "--processes", "1", "--threads", "4")
    await worker.works()
    began = time.monotonic()
    early: float | None = None
    while (spent := time.monotonic() - began) < seconds:
        await _mixed_work(crew)
        if early is None and spent > seconds / 3:
            early = _used_mib(worker)
    late = _used_mib(worker)
    assert early is not None
    print(f"{early:.1f} MiB after a third, {late:.1f} MiB at the end")  # noqa: T201
    assert late - early < growth_mib
    assert await worker.stopped() == 0


async def _mixed_work(crew: Crew) -> None:
    """About two hundred jobs of all kinds, until each has ended."""
    tasks = crew.app.tasks
    calls = [tasks["work"].call(0.001) for _ in range(100)]
    calls += [tasks["second_time_lucky"].call() for _ in range(30)]
    calls += [tasks["refuse"].call() for _ in range(20)]
    # Those that raise a new error each time: one that is raised again keeps all its tracebacks.
    calls += [tasks["end_in_loop"].call("sys.exit") for _ in range(20)]
    calls += [tasks["end_in_thread"].call("sys.exit") for _ in range(20)]
    calls += [tasks["echo_in_process"].call(n) for n in range(10)]
    jobs = await crew.app.enqueue_many(calls)
    await asyncio.gather(*(job.result(LONG) for job in jobs), return_exceptions=True)
    dead = await crew.app.admin.dead("default", limit=1000)
    for job in dead:
        await crew.app.admin.purge(job.id)
    crew.forget_facts()


def _used_mib(worker: WorkerProcess) -> float:
    status = Path(f"/proc/{worker.pid}/status").read_text()
    return int(status.split("RssAnon:")[1].split()[0]) / 1024
