"""taskiq on Redis Streams, the broker of taskiq-redis that acknowledges."""

import asyncio
import sys
import time

from runs import BARE, URL, note_run
from taskiq_redis import RedisAsyncResultBackend, RedisStreamBroker

broker = RedisStreamBroker(URL)
if not BARE:
    broker = broker.with_result_backend(RedisAsyncResultBackend(URL, result_ex_time=600))


@broker.task(task_name="plain")
def plain() -> None:
    note_run()


@broker.task(task_name="coroutine")
async def coroutine() -> None:
    note_run()


async def send(kind: str, count: int) -> None:
    task = plain if kind == "plain" else coroutine
    await broker.startup()
    began, busy = time.perf_counter(), time.process_time()
    for _ in range(count):
        await task.kiq()
    took, used = time.perf_counter() - began, time.process_time() - busy
    sys.stdout.write(f"{took / count} {used / count}")
    await broker.shutdown()


if __name__ == "__main__":
    asyncio.run(send(sys.argv[1], int(sys.argv[2])))
