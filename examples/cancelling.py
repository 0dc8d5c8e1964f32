"""Cancel jobs before they end by themselves; pause queues and tasks."""

import asyncio
import os
import threading
import time

from headrace import Headrace, JobCancelled

app = Headrace(os.environ.get("HEADRACE_URL") or "memory://", namespace="example-cancelling")

begun = threading.Event()


@app.task
async def sleep(seconds: float) -> None:
    begun.set()
    try:
        await asyncio.sleep(seconds)
    finally:
        print("the async one cleans up")


@app.task
def crunch() -> None:
    begun.set()
    try:
        while True:
            time.sleep(0.001)
    finally:
        print("the thread cleans up")


@app.task
async def greet(name: str) -> str:
    return f"Hello {name}"


async def main() -> None:
    async with app:
        waiting = await greet.enqueue("nobody")
        print("waiting:", await waiting.cancel(), await waiting.status())

        await app.admin.pause("default", task="greet")
        paused = await greet.enqueue("Ada")
        async with app.worker():
            for call in (sleep.call(60), crunch.call()):
                begun.clear()
                job = await app.enqueue(call)
                await asyncio.to_thread(begun.wait)
                await job.cancel()
                try:
                    await job.result(timeout=10)
                except JobCancelled:
                    print("running:", await job.status())

            print("paused:", await paused.status())
            await app.admin.resume("default", task="greet")
            print("resumed:", await paused.result(timeout=10))


if __name__ == "__main__":
    asyncio.run(main())

# Prints:
# waiting: True cancelled
# the async one cleans up
# running: cancelled
# the thread cleans up
# running: cancelled
# paused: blocked
# resumed: Hello Ada
