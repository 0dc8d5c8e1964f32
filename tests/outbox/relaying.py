"""A relay of its own, which ends at the moment that `RELAY_KILL` names: `send:after:2` is right
after the second time that something was sent, `take:before:1` right before rows are taken."""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
from collections.abc import Callable
from typing import Any

from headrace import Headrace
from headrace.outbox import Outbox
from headrace.outbox.row_sender import RowSender
from headrace.outbox.rows import PendingRows

# What is killed is soon taken over.
LEASE = 0.3

app = Headrace(os.environ.get("RELAY_STORE", "memory://"))
orders = app.topic("orders", str)


@app.task(name="work")
async def work(number: int) -> None:
    """Something to send."""


def prepare(point: str) -> None:
    """Set the trap."""
    verb, moment, number = point.split(":")
    owner: Any = RowSender if verb == "send" else PendingRows
    setattr(owner, verb, _deadly(getattr(owner, verb), moment, int(number)))


def _deadly(original: Callable[..., Any], moment: str, number: int) -> Callable[..., Any]:
    calls = 0

    def called(now: str) -> None:
        if now == moment and calls == number:
            os.kill(os.getpid(), signal.SIGKILL)

    async def deadly_async(*args: Any) -> Any:
        nonlocal calls
        calls += 1
        called("before")
        answer = await original(*args)
        called("after")
        return answer

    def deadly(*args: Any) -> Any:
        nonlocal calls
        calls += 1
        called("before")
        answer = original(*args)
        called("after")
        return answer

    return deadly_async if inspect.iscoroutinefunction(original) else deadly


if __name__ == "__main__":
    if point := os.environ.get("RELAY_KILL"):
        prepare(point)
    asyncio.run(Outbox(app).relay(os.environ["RELAY_DATABASE"], lease=LEASE).run())
