"""arq. Its functions are async."""

import asyncio
import sys
import time

from arq import create_pool
from arq.connections import RedisSettings
from runs import BARE, URL, note_run


async def coroutine(ctx: dict) -> None:
    note_run()


class WorkerSettings:
    functions = (coroutine,)
    redis_settings = RedisSettings.from_dsn(URL)
    if BARE:
        keep_result = 0
        max_jobs = 100


async def send(count: int) -> None:
    pool = await create_pool(WorkerSettings.redis_settings)
    began, busy = time.perf_counter(), time.process_time()
    for _ in range(count):
        await pool.enqueue_job("coroutine")
    took, used = time.perf_counter() - began, time.process_time() - busy
    sys.stdout.write(f"{took / count} {used / count}")
    await pool.aclose()


if __name__ == "__main__":
    asyncio.run(send(int(sys.argv[2])))
