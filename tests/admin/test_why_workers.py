"""`app.admin.why()`, where it depends on what workers say of themselves."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from headrace import Headrace
from headrace.core.workers import WORKERS, WorkerRecord, encode_record

NOBODY = "the job waits for another worker that reads queue 'default', and none is running"


async def says(app: Headrace, id: str, expected: str) -> None:
    """Wait until the sentence about a job begins so: workers say every moment what they run."""
    async with asyncio.timeout(10):
        while not (await app.admin.why(id)).startswith(expected):  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def test_a_job_behind_others(app: Headrace) -> None:
    started = asyncio.Event()

    @app.task
    async def hold() -> None:
        started.set()
        await asyncio.Event().wait()

    async with app.worker(concurrency=1, drain=0):
        running = await hold.enqueue()
        await started.wait()
        first = await hold.enqueue()
        more = [await hold.enqueue() for _ in range(3)]
        begin, busy = "It is waiting", "the only slot of the worker that reads it is busy"
        await says(
            app, first.id, f"{begin}, first in queue 'default': {busy}; the next free worker"
        )
        assert await app.admin.why(more[0].id) == (
            f"{begin} in queue 'default', behind 1 job: {busy}."
        )
        assert "behind 3 jobs: " in await app.admin.why(more[2].id)
        (worker,) = await app.admin.workers()
        why = await app.admin.why(running.id)
        assert why.startswith(f"It is running on worker {worker.name!r}, attempt 1, since ")


@pytest.mark.parametrize(
    ("threads", "busy"), [(1, "the only thread of "), (2, "all 2 threads of ")]
)
async def test_a_job_that_waits_for_a_thread(app: Headrace, threads: int, busy: str) -> None:
    release = threading.Event()

    @app.task
    def block() -> None:
        release.wait(20)

    @app.task
    async def stay() -> None:
        await asyncio.Event().wait()

    try:
        async with app.worker(threads=threads, drain=0):
            await app.enqueue_many([stay.call() for _ in range(3)])
            for _ in range(threads):
                await block.enqueue()
            first, second = await block.enqueue(), await block.enqueue()
            verb = "is busy" if threads == 1 else "are busy"
            busy += f"the worker that reads it {verb}"
            free = "the next worker with a free thread takes it"
            await says(app, first.id, f"It is waiting, first in queue 'default': {busy}; {free}.")
            await says(app, second.id, f"It is waiting in queue 'default', behind 1 job: {busy}.")
    finally:
        release.set()


@asynccontextmanager
async def running_on(app: Headrace, worker: str) -> AsyncIterator[str]:
    """The id of a job that is held under the name of a worker, and nothing else of that worker."""

    @app.task
    async def work() -> None: ...

    job = await work.enqueue()
    consumer = (await app.session()).store.consumer(worker, ["default"], 30.0)
    (_,) = await consumer.fetch(1, 1.0)
    yield job.id
    await consumer.close()


async def heard_of(app: Headrace, worker: str, seconds_ago: float, queue: str = "default") -> None:
    """Leave the record of a worker as of that moment."""
    store = (await app.session()).store
    record = WorkerRecord(
        name=worker, host="vm", pid=1, started_ms=0, queues={queue: 1}, concurrency=9, version="1",
        python="3", running=1, beat_ms=await store.time_ms() - round(seconds_ago * 1000),
    )  # fmt: skip
    await store.kv_set(WORKERS, worker, encode_record(record), ttl=30.0)


async def test_a_job_whose_worker_is_not_heard_of_any_more(app: Headrace) -> None:
    async with running_on(app, "ghost-1") as id:
        begin = "It is running on worker 'ghost-1', attempt 1; that worker is not heard of any more"
        assert await app.admin.why(id) == f"{begin}: {NOBODY}."
        await heard_of(app, "other", 0)
        takes = "another takes the job over when its lease is over"
        assert await app.admin.why(id) == f"{begin}: {takes}."


async def test_a_job_whose_worker_has_missed_its_beats(store_url: str, namespace: str) -> None:
    async with (
        Headrace(store_url, namespace=namespace, lease=30) as app,
        running_on(app, "vm-1") as id,
    ):
        begin = "It is running on worker 'vm-1', attempt 1"
        await heard_of(app, "vm-1", 3)
        assert await app.admin.why(id) == f"{begin}."

        async def why() -> str:
            sentence = await app.admin.why(id)
            # The test may take a second or two.
            return re.sub(
                r"for 1\d s", "for 10 s", re.sub(r"within 2\d s", "within 27 s", sentence)
            )

        await heard_of(app, "vm-1", 10)
        silent = f"{begin}; that worker has not been heard of for 10 s: if it is dead, "
        assert await why() == f"{silent}{NOBODY}."
        # Those of another queue, and those that fell silent with it, are of no help.
        await heard_of(app, "vm-2", 0, queue="mail")
        await heard_of(app, "vm-3", 10)
        assert await why() == f"{silent}{NOBODY}."
        await heard_of(app, "vm-4", 0)
        another = f"{silent}another takes the job over when its lease is over"
        assert await why() == f"{another}, within 27 s."
        # Its lease is longer than that of this app, or it would be gone.
        await heard_of(app, "vm-1", 40)
        assert (await why()).endswith("takes the job over when its lease is over.")


async def test_a_consumer_is_of_the_worker_that_has_it(app: Headrace) -> None:
    async with running_on(app, "vm-1+2") as id:
        await heard_of(app, "vm-1", 0)
        assert await app.admin.why(id) == "It is running on worker 'vm-1', attempt 1."
