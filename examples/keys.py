"""Jobs of one key run one after the other, in the order they were sent, retries included."""

import asyncio
import os
from collections import defaultdict

from headrace import Context, Headrace, Retry

app = Headrace(os.environ.get("HEADRACE_URL") or "memory://", namespace="example-keys")

done: dict[str, list[int]] = defaultdict(list)
busy: dict[str, int] = defaultdict(int)
most: dict[str, int] = defaultdict(int)


@app.task(retry=Retry(3, backoff=[0.05], jitter=False))
async def book(ctx: Context, account: str, number: int) -> None:
    if number == 2 and ctx.attempt == 1:
        raise ConnectionError("number 2 fails at first, and the others wait for it")
    done[account].append(number)


@app.task(concurrency=2)
async def call_api(customer: str) -> None:
    busy[customer] += 1
    most[customer] = max(most[customer], busy[customer])
    await asyncio.sleep(0.02)
    busy[customer] -= 1


async def main() -> None:
    async with app, app.worker(), app.worker():
        calls = [
            book.options(key=account).call(account, number)
            for number in range(1, 5)
            for account in ("A", "B")
        ]
        for job in await app.enqueue_many(calls):
            await job.result(timeout=10)
        print("A:", done["A"])
        print("B:", done["B"])

        calls = [call_api.options(key=customer).call(customer) for customer in "XXXXXXYYYYYY"]
        for job in await app.enqueue_many(calls):
            await job.result(timeout=10)
        print("at a time:", dict(most))


if __name__ == "__main__":
    asyncio.run(main())

# Prints:
# A: [1, 2, 3, 4]
# B: [1, 2, 3, 4]
# at a time: {'X': 2, 'Y': 2}
