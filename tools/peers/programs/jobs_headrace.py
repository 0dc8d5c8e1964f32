"""Headrace: plain functions, and async ones."""

import asyncio
import sys
import time

from runs import BARE, URL, note_run, report_sends

from headrace import Headrace

app = Headrace(URL)
if BARE:
    app.defaults(result_ttl=0, keep_done=0)


@app.task
def plain() -> None:
    note_run()


@app.task
async def coroutine() -> None:
    note_run()


async def send(kind: str, count: int) -> None:
    """One by one, some of them; then the rest at once, so that there is enough to drain."""
    single = count // 20
    async with app:
        if kind == "coroutine":
            began, busy = time.perf_counter(), time.process_time()
            for _ in range(single):
                await coroutine.enqueue()
            took, used = time.perf_counter() - began, time.process_time() - busy
            sys.stdout.write(f"{took / single} {used / single}")
        task = coroutine if kind == "coroutine" else plain
        await app.enqueue_many(task.call() for _ in range(count - single))


if __name__ == "__main__":
    kind, count = sys.argv[1], int(sys.argv[2])
    if kind == "plain":
        report_sends(plain.enqueue_sync, count // 20)
    asyncio.run(send(kind, count))
