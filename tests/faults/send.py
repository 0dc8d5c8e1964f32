"""A sender of its own: sends batch after batch, and writes down the ids of each that was taken."""

from __future__ import annotations

import asyncio
import os
import sys

from tests.faults.shop import app, work, write_down


async def main(batches: int, size: int) -> None:
    async with app:
        for _ in range(batches):
            jobs = await app.enqueue_many(work.call(0.0) for _ in range(size))
            write_down([f"sent {job.id} 0 0 {os.getpid()}" for job in jobs])


if __name__ == "__main__":
    given = [int(argument) for argument in sys.argv[1:]] or [1, 1]
    asyncio.run(main(*given))
