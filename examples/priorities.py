"""Which job goes first: priorities within a queue, weights and order among queues."""

import asyncio
import os

from headrace import Headrace

app = Headrace(os.environ.get("HEADRACE_URL") or "memory://", namespace="example-priorities")

ran: list[str] = []


@app.task
async def work(name: str) -> None:
    ran.append(name)


async def main() -> None:
    async with app:
        jobs = [
            await work.enqueue("usual"),
            await work.options(priority=5).enqueue("soon"),
            await work.options(priority=100).enqueue("first"),
            await work.enqueue("usual too"),
        ]
        async with app.worker(concurrency=1):
            for job in jobs:
                await job.result(timeout=10)
        print("by priority:", ran)

        ran.clear()
        jobs = [await work.options(queue=q).enqueue(q) for q in ("low", "low", "high", "high")]
        async with app.worker(queues=["high", "low"], strict=True, concurrency=1):
            for job in jobs:
                await job.result(timeout=10)
        print("strict order of queues:", ran)

        ran.clear()
        jobs = [await work.options(queue=q).enqueue(q) for q in ["mail", "report"] * 20]
        async with app.worker(queues={"mail": 3, "report": 1}, concurrency=1):
            for job in jobs:
                await job.result(timeout=10)
        print("of the first 16 by weight 3 to 1:", ran[:16].count("mail"), "are mail")


if __name__ == "__main__":
    asyncio.run(main())

# Prints:
# by priority: ['first', 'soon', 'usual', 'usual too']
# strict order of queues: ['high', 'high', 'low', 'low']
# of the first 16 by weight 3 to 1: 12 are mail
