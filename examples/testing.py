"""A test lets a worker die after its function has run: who charges twice is found out."""

import asyncio

from headrace import Headrace

app = Headrace()
charges: list[str] = []
paid: dict[str, int] = {}


@app.task
async def careless(order: str, cents: int) -> None:
    charges.append(order)


@app.task
async def careful(order: str, cents: int) -> None:
    # As INSERT … ON CONFLICT DO NOTHING does in a database.
    paid.setdefault(order, cents)


async def main() -> None:
    with app.testing() as headrace:
        await careless.enqueue("o-1", 995)
        await careful.enqueue("o-1", 995)
        headrace.assert_sent(careful, order="o-1", delay=0)

        headrace.crash(careless, after="run")
        headrace.crash(careful, after="run")
        await headrace.drain()
        print("the careless one charged", len(charges), "times, the careful one", len(paid), "time")


if __name__ == "__main__":
    asyncio.run(main())

# Prints:
# the careless one charged 2 times, the careful one 1 time
