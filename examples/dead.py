"""Find dead jobs, inspect them, repair them, and replay them."""

import asyncio
import os

from headrace import ArgumentError, Headrace, JobFailed, Retry

app = Headrace(os.environ.get("HEADRACE_URL") or "memory://", namespace="example-dead")


@app.task(retry=Retry(2, backoff=[0.01], jitter=False))
async def ship(order: int, country: str) -> str:
    if len(country) != 2:
        raise ValueError(f"{country!r} is no country code")
    return f"order {order} goes to {country}"


async def main() -> None:
    async with app, app.worker():
        job = await ship.enqueue(7, "Germany")
        try:
            await job.result(timeout=10)
        except JobFailed as failed:
            print(failed.reason)

        (dead,) = await app.admin.dead(task="ship", error="no country code")
        print(dead.error_type, dead.arguments, len(dead.attempts), "attempts")
        try:
            await app.admin.replay(dead.id, edit={"land": "DE"})
        except ArgumentError as error:
            print("refused:", error.argument)
        print("replayed", await app.admin.replay(dead.id, edit={"country": "DE"}))
        print("again", await app.admin.replay(dead.id))
        print(await job.result(timeout=10))


if __name__ == "__main__":
    asyncio.run(main())

# Prints:
# retries_exhausted
# ValueError {'order': 7, 'country': 'Germany'} 2 attempts
# refused: land
# replayed 1
# again 0
# order 7 goes to DE
