"""What killed workers run when features are at stake: keys, limits, batches, flows and schedules.
Each run writes a line that is on disk before it goes on, so it outlives whatever is killed next.

`MILL_CLOCK` moves this process's clock by so many seconds, as on a machine whose clock is wrong.
"""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

_OFFSET = float(os.environ.get("MILL_CLOCK", "0"))


def _moved_clock() -> None:
    seconds, nanoseconds = time.time, time.time_ns
    time.time = lambda: seconds() + _OFFSET
    time.time_ns = lambda: nanoseconds() + int(_OFFSET * 1e9)


if _OFFSET:
    _moved_clock()

from headrace import Context, Headrace, Retry  # noqa: E402

LIMIT = 10
EVERY = 0.4
PRESSED, PRESSES = 2, 3

app = Headrace()
app.queue("press", concurrency=PRESSES)
_SOON = Retry(5, backoff=[0.05], jitter=False)


def write(*words: object) -> None:
    """One line, in one piece, on disk. `CLOCK_MONOTONIC` is the same for all processes."""
    line = " ".join(map(str, (*words, time.monotonic_ns(), os.getpid(), "."))) + "\n"
    file = os.open(os.environ["MILL_FACTS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, line.encode())
    os.fsync(file)
    os.close(file)


@app.task(concurrency=1, retry=_SOON, result_ttl=0)
async def ordered(context: Context, key: str, number: int) -> None:
    write("begin", key, number)
    await asyncio.sleep(0.003)
    if number % 7 == 3 and context.attempt == 1:
        write("fail", key, number)
        raise ConnectionError("once")
    write("end", key, number)


@app.task(rate=f"{LIMIT}/s", result_ttl=0)
async def limited(number: int) -> None:
    write("start", "limited", number)


@app.task(queue="press", concurrency=PRESSED, key_concurrency=1, result_ttl=0)
async def pressed(key: str, number: int) -> None:
    write("enter", key, number)
    await asyncio.sleep(0.01)
    write("leave", key, number)


@app.task(queue="press", result_ttl=0)
async def stamped(number: int) -> None:
    write("enter", "stamped", number)
    await asyncio.sleep(0.01)
    write("leave", "stamped", number)


@app.task(queue="left", batch=5, batch_key=lambda item: item.partition("-")[0], max_wait=0.2)
async def gathered(items: list[str]) -> None:
    write("gather", ",".join(items), len(items))
    await asyncio.sleep(0.01)


@app.task(queue="left")
async def split(number: int) -> int:
    await asyncio.sleep(0.002)
    return number + 1


@app.task(queue="right")
async def double(number: int) -> int:
    await asyncio.sleep(0.002)
    return 2 * number


@app.task(queue="left")
async def add_up(numbers: list[int]) -> int:
    return sum(numbers)


def is_repaired() -> bool:
    return Path(f"{os.environ['MILL_FACTS']}.repaired").exists()


@app.task(queue="left", retry=Retry(1))
async def brittle(number: int) -> int:
    """Fails until someone has repaired it."""
    await asyncio.sleep(0.002)
    if number % 2 and not is_repaired():
        raise ValueError("not repaired yet")
    return number


@app.task(queue="right")
async def spread(context: Context, number: int) -> int:
    for more in range(number):
        await context.flow.add(double.call(more))
    return number


@app.every(EVERY, missed="all", queue="clock", result_ttl=0)
async def tick(context: Context) -> None:
    write("tick", context.job.id, 0)
