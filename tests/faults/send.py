"""A sender of its own: sends batch after batch, and writes down the ids of each that was taken.
With a third number, the jobs gather, with as many keys."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

from headrace import Call
from tests.faults.shop import app, digest, work, write_down


def call(number: int, keys: int) -> Call[Any]:
    return digest.call(f"key{number % keys}-{number}") if keys else work.call(0.0)


async def main(batches: int, size: int, keys: int = 0) -> None:
    async with app:
        for _ in range(batches):
            jobs = await app.enqueue_many(call(number, keys) for number in range(size))
            write_down([f"sent {job.id} 0 0 {os.getpid()}" for job in jobs])


if __name__ == "__main__":
    given = [int(argument) for argument in sys.argv[1:]] or [1, 1]
    asyncio.run(main(*given))
