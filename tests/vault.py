"""An app whose jobs and events quote a secret wherever they can, and a hook that hides it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, field_validator

from headrace import Context, Headrace, Retry, Topic, chain

CARD = "4929-S3CR3T-8810"
LONG = "L0NG" + "abcdefghijklmnopqrstuvwxyz" * 4 + "3ND"
"""Longer than pydantic quotes without cutting it."""
SECRETS = (CARD, CARD.lower(), "S3CR3T", "s3cret", "L0NGabcd", "uvwxyz3ND", "wxyz3ND")

PATIENCE = 60.0


class Payment(BaseModel):
    card: str
    note: str = ""
    amount: int = 1

    @field_validator("amount")
    @classmethod
    def _positive(cls, amount: int) -> int:
        return amount


@dataclass
class Paid:
    order: str
    card: str


def hide(task: str, value: Any) -> Any:
    """Hides cards, wherever they are in arguments, results and events."""
    if isinstance(value, dict):
        # Changes what it is given, as hooks may.
        for name, each in value.items():
            value[name] = "***" if name in ("card", "note") else hide(task, each)
        return value
    return [hide(task, each) for each in value] if isinstance(value, list) else value


class Vault:
    """`app` with what it was sent."""

    def __init__(self, app: Headrace) -> None:
        self.app = app
        self.started = asyncio.Event()
        self.go = asyncio.Event()

        @app.task(
            name="charge",
            queue="cards",
            retry=Retry(1),
            unique=lambda payment: f"u-{payment.card}",
            rate="2/d",
            rate_key=lambda payment: f"r-{payment.card}",
        )
        async def charge(ctx: Context, payment: Payment) -> None:
            ctx.log(f"charging {payment.card}")
            ctx.progress(0.5, f"half of {payment.card.lower()}")
            if payment.note == "hold":
                self.started.set()
                await self.go.wait()
                return
            async with ctx.once(f"charge-{payment.card}"):
                pass
            Payment.model_validate({"card": 5, "note": payment.note, "amount": payment.card})

        @app.task(name="ask", queue="cards", retry=Retry(1), result_ttl=600)
        async def ask(ctx: Context, card: str) -> dict[str, str]:
            ctx.log(f"asked about {card}")
            return {"card": card}

        @app.task(name="add", queue="cards")
        async def add(before: Any, card: str) -> None: ...

        self.charge, self.ask, self.add = charge, ask, add
        self.orders: Topic[Paid] = app.topic("orders", Paid, key=lambda event: f"k-{event.card}")

        @self.orders.subscribe("ledger", ordered=True, retry=Retry(1), begin="start")
        async def book(event: Paid) -> None:
            unknown = type(f"NoAccount_{event.card}", (ValueError,), {})
            raise unknown(f"no account for {event.card!r}")

    async def fill(self) -> dict[str, str]:
        """Jobs and events in all states, with the secret in each; their ids by what they are."""
        app, ids = self.app, dict[str, str]()
        headers, tags = {"x-card": CARD}, [f"card:{CARD}"]
        async with app.worker(), asyncio.timeout(PATIENCE):
            job = await self.charge.options(headers=headers, tags=tags).enqueue(
                Payment(card=CARD, note=LONG)
            )
            ids["dead"] = job.id
            done = await self.ask.options(headers=headers, tags=tags).enqueue(CARD)
            ids["done"] = done.id
            await done.result(PATIENCE)
            ids["event"] = await self.orders.publish(
                Paid("o-1", CARD), headers=headers, correlation_id=f"c-{CARD}"
            )
            ids["behind"] = await self.orders.publish(Paid("o-2", CARD), headers=headers)
            while len(await app.admin.dead()) < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        await self._leave(ids)
        return ids

    async def _leave(self, ids: dict[str, str]) -> None:
        """Jobs that wait for one thing or another."""
        app, keyed = (
            self.app,
            self.ask.options(key=f"k-{CARD}", headers={"x-card": CARD}, tags=[f"card:{CARD}"]),
        )
        ids["waiting"] = (await keyed.enqueue(CARD)).id
        ids["lane"] = (await keyed.enqueue(CARD)).id
        ids["scheduled"] = (await keyed.options(delay=3600).enqueue(CARD)).id
        limited = self.charge.options(unique=False)
        for number in range(3):
            job = await limited.enqueue(Payment(card=CARD, amount=number))
            ids[f"limited-{number}"] = job.id
        ids["flow"] = (await app.enqueue(chain(self.ask.call(CARD), self.add.call(card=CARD)))).id


def leaks(text: str) -> list[str]:
    """The secrets that are in a text, also if they were escaped."""
    return [secret for secret in SECRETS if secret in text]
