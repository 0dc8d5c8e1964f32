"""A queue with a bound: its task, and a sender that fills it until it is killed. Its argument says
what happens when the queue is full."""

from __future__ import annotations

import asyncio
import random
import sys
from contextlib import suppress
from itertools import count

from headrace import Call, Context, Headrace, QueueFull, Retry
from headrace.core.bounds import Overflow

MOST = 25
NARROW = "narrow"

app = Headrace(keep_done=0)


@app.task(queue=NARROW, retry=Retry(5, backoff=[0.01], jitter=False), result_ttl=0)
async def squeeze(ctx: Context, number: int) -> None:
    await asyncio.sleep(0.002)
    if number % 5 == 0 and ctx.attempt == 1:
        raise ConnectionError("once")


def crowd(rng: random.Random) -> list[Call[None]]:
    """Jobs that wait, are scheduled, or are behind others of their key."""
    kinds = (squeeze, squeeze.options(delay=0.02), squeeze.options(key="one"))
    return [rng.choice(kinds).call(rng.randrange(100)) for _ in range(rng.randint(1, 8))]


async def main(overflow: Overflow) -> None:
    rng = random.Random()
    app.queue(NARROW, max_length=MOST, overflow=overflow)
    async with app:
        for sent in count():
            with suppress(QueueFull):
                await app.enqueue_many(crowd(rng))
            if not sent:
                print(f"a sender runs with {overflow}", flush=True)  # noqa: T201


if __name__ == "__main__":
    overflow: Overflow = sys.argv[1]  # type: ignore[assignment]
    asyncio.run(main(overflow))
