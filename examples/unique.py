"""One job instead of many that would do the same."""

import asyncio
import os

from headrace import Headrace, State

app = Headrace(os.environ.get("HEADRACE_URL") or "memory://", namespace="example-unique")


@app.task(unique=True)
async def refresh(customer: int) -> str:
    return f"customer {customer} is fresh"


@app.task(debounce=0.2, unique=lambda document, text: document)
async def index(document: str, text: str) -> str:
    return f"{document}: {text}"


async def main() -> None:
    async with app:
        first, second, other = [await refresh.enqueue(n) for n in (7, 7, 8)]
        print("the same job:", first == second, first == other)

        typed = [await index.enqueue("notes", text) for text in ("w", "wo", "word")]
        print("one job:", len(set(typed)) == 1, await typed[0].status() is State.SCHEDULED)

        async with app.worker():
            print(await second.result(timeout=10))
            print(await typed[0].result(timeout=10))
            third = await refresh.enqueue(7)
            print("after the end, another:", third != first)
            await third.result(timeout=10)


if __name__ == "__main__":
    asyncio.run(main())

# Prints:
# the same job: True False
# one job: True True
# customer 7 is fresh
# notes: word
# after the end, another: True
