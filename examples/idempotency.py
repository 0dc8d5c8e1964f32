"""An effect that must happen once, although its job may run twice."""

import asyncio
import os

from headrace import Context, Headrace, Retry

app = Headrace(os.environ.get("HEADRACE_URL") or "memory://", namespace="example-idempotency")


class PaymentProvider:
    """Like real providers, it answers a charge with a known key without charging again."""

    def __init__(self) -> None:
        self.charges: dict[str, str] = {}

    async def charge(self, cents: int, *, idempotency_key: str) -> str:
        return self.charges.setdefault(idempotency_key, f"receipt {len(self.charges) + 1}")


provider = PaymentProvider()
blocks = 0


@app.task(retry=Retry(3, backoff=[0.01], jitter=False))
async def buy(ctx: Context, cents: int) -> str:
    global blocks
    async with ctx.once("charge", str) as charge:
        if charge.first:
            blocks += 1
            charge.value = await provider.charge(cents, idempotency_key=f"{ctx.job.id}-charge")
    if ctx.attempt < 3:
        raise ConnectionError("the mail server is away, after the charge")
    return f"{charge.value}, mailed on attempt {ctx.attempt}"


async def main() -> None:
    async with app, app.worker():
        print(await (await buy.enqueue(995)).result(timeout=10))
        print("charged", len(provider.charges), "time, block entered", blocks, "time")


if __name__ == "__main__":
    asyncio.run(main())

# Prints:
# receipt 1, mailed on attempt 3
# charged 1 time, block entered 1 time
