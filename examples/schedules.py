"""Jobs at given times, one per tick for the whole fleet."""

import asyncio
import os

from headrace import Context, Headrace

app = Headrace(os.environ.get("HEADRACE_URL") or "memory://", namespace="example-schedules")

ticks: list[str] = []
ticked = asyncio.Event()


@app.every(0.2)
async def poll(ctx: Context) -> None:
    ticks.append(ctx.job.id)
    if len(ticks) == 3:
        ticked.set()


@app.cron("30 2 * * *", timezone="Europe/Berlin")
async def nightly() -> str:
    return "nightly report"


async def main() -> None:
    async with app, app.worker(), app.worker():
        async with asyncio.timeout(10):
            await ticked.wait()
        print("ticks with two jobs:", len(ticks) - len(set(ticks)))
        print([schedule.name for schedule in await app.schedules.list()])

        job = await app.schedules.run_now("nightly")
        print(await job.result(timeout=10))


if __name__ == "__main__":
    asyncio.run(main())

# Prints:
# ticks with two jobs: 0
# ['nightly', 'poll']
# nightly report
