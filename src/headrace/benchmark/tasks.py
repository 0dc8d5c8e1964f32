"""Tasks that do nothing, or almost nothing: for worker processes, which import them by name."""

from __future__ import annotations

import time

from headrace import Headrace

app = Headrace()


@app.task(result_ttl=0)
async def nothing() -> None:
    """Do nothing, on the loop."""


@app.task(result_ttl=0)
def nothing_plain() -> None:
    """Do nothing, in a thread."""


@app.task(result_ttl=0, run_in="process")
def nothing_apart() -> None:
    """Do nothing, in a process."""


@app.task(result_ttl=0)
def sleep_1_ms() -> None:
    """Block a thread for a millisecond."""
    time.sleep(0.001)


@app.task
async def say_hello() -> str:
    """Something that a caller can wait for."""
    return "hello"
