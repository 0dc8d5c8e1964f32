"""No more starts in any second than a rate allows, for all workers together."""

import asyncio
import os
import time

from headrace import Headrace

app = Headrace(os.environ.get("HEADRACE_URL") or "memory://", namespace="example-rates")

starts: list[float] = []
app.queue("partner", rate="1000/m")


@app.task(rate="5/s")
async def send_sms(number: int) -> None:
    starts.append(time.monotonic())


@app.task(queue="partner", rate="2/10s", rate_key=lambda customer: customer)
async def call_partner(customer: str) -> str:
    return customer


async def main() -> None:
    async with app, app.worker(), app.worker():
        for job in await app.enqueue_many(send_sms.call(n) for n in range(8)):
            await job.result(timeout=10)
        started = sorted(starts)
        print(len(started), "started")
        print(
            "six at once:",
            any(b - a < 0.25 for a, b in zip(started, started[5:], strict=False)),
        )

        jobs = await app.enqueue_many(call_partner.call(c) for c in ("eve", "eve", "eve", "ada"))
        print(await jobs[3].result(timeout=10), "does not wait for eve")
        print("eve's third is", await jobs[2].status())
        print(await app.admin.why(jobs[2].id))
        await app.admin.cancel([job.id for job in jobs])


if __name__ == "__main__":
    asyncio.run(main())

# Prints:
# 8 started
# six at once: False
# ada does not wait for eve
# eve's third is blocked
# It is blocked: task 'call_partner' is over its rate of 2 starts in 10 s.
