"""What happened to jobs, heard by a listener in the worker, and read with a cursor that misses
nothing; and counters for charts."""

import asyncio
import os
from collections import Counter

from headrace import Context, Headrace, Retry, WorkerEvent

app = Headrace(os.environ.get("HEADRACE_URL") or "memory://", namespace="example-events")


@app.task(retry=Retry(2, backoff=[0.01], jitter=False))
async def shaky(ctx: Context) -> int:
    if ctx.attempt == 1:
        raise ConnectionError("once")
    return ctx.attempt


heard = asyncio.Event()


@app.on("done", task=shaky)
async def celebrate(event: WorkerEvent) -> None:
    print(f"heard: {event.task} is {event.kind}, in attempt {event.attempt}")
    heard.set()


async def main() -> None:
    async with app, app.worker():
        now = [event async for event in app.admin.events("default")]
        job = await shaky.enqueue()
        await job.result(timeout=10)
        await heard.wait()

        cursor = now[-1].cursor if now else ""
        async for event in app.admin.events("default", after=cursor):
            if event.id == job.id:
                print(event.kind, *([f"attempt {event.attempt}"] if event.attempt else []))
                cursor = event.cursor
        print("after that:", [event async for event in app.admin.events("default", after=cursor)])

        counted: Counter[str] = Counter()
        for minute in await app.admin.stats(minutes=2):
            counted.update(minute.counts)
        print("counted:", counted["sent"] > 0, counted["retry"] > 0, counted["done"] > 0)


if __name__ == "__main__":
    asyncio.run(main())

# Prints:
# heard: shaky is done, in attempt 2
# sent
# started attempt 1
# retry attempt 1
# ready
# started attempt 2
# done attempt 2
# after that: []
# counted: True True True
