"""Inspect and change queues and jobs, as the command line does."""

import asyncio
import os

from headrace import Headrace

app = Headrace(os.environ.get("HEADRACE_URL") or "memory://", namespace="example-admin")


@app.task(queue="mail")
async def send(to: str) -> None: ...


async def main() -> None:
    async with app:
        jobs = [
            await send.enqueue("ada@example.org"),
            await send.options(delay=3600).enqueue("eve@example.org"),
            await send.options(key="bob").enqueue("bob@example.org"),
            await send.options(key="bob").enqueue("bob@example.net"),
        ]
        queue = await app.admin.queue("mail")
        print(queue.waiting, "waiting,", queue.scheduled, "scheduled,", queue.blocked, "blocked")
        for job in jobs[0], jobs[3]:
            print(await app.admin.why(job.id))
        found = await app.admin.jobs("mail", search="example.net")
        print([(str(job.state), job.key) for job in found.jobs])
        report = await app.admin.cancel(queue="mail")
        print("cancelled", report.cancelled)


if __name__ == "__main__":
    asyncio.run(main())

# Prints:
# 2 waiting, 1 scheduled, 1 blocked
# It is waiting: no worker is running that reads queue 'mail'.
# It is blocked: jobs of its key 'bob' run one at a time, and others are before it.
# [('blocked', 'bob')]
# cancelled 4
