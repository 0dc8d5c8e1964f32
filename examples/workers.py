"""Which workers are running: the registry of workers."""

import asyncio
import os

from headrace import Headrace

app = Headrace(os.environ.get("HEADRACE_URL") or "memory://", namespace="example-workers")


@app.task
async def add(a: int, b: int) -> int:
    return a + b


async def main() -> None:
    async with app:
        async with app.worker(queues={"mail": 3, "default": 1}, concurrency=10) as worker:
            for info in await app.admin.workers():
                print(info.name == worker.name, info.pid == os.getpid())
                print(info.queues, info.concurrency, "at a time,", info.running, "running")
        print(await app.admin.workers())


if __name__ == "__main__":
    asyncio.run(main())

# Prints:
# True True
# {'mail': 3, 'default': 1} 10 at a time, 0 running
# []
