"""What the workers in these tests run. A run proves itself by lines in the file that
`SHOP_FACTS` names, which outlive whatever is killed next."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Sequence
from typing import Any

from headrace import Context, Headrace, Reject, Retry
from tests.faults import killing
from tests.faults.endings import ENDINGS
from tests.faults.oddities import ODD

app = Headrace()
killing.prepare(app.url)

# Read once: there are handlers here that clear the environment.
_FACTS = os.environ.get("SHOP_FACTS", "")
_AT_ONCE = Retry(3, backoff=[0.05], jitter=False)
_TWICE = Retry(2, backoff=[0.01])
_ONCE = Retry(1)


def note(what: str, ctx: Context) -> None:
    write_down([f"{what} {ctx.job.id} {ctx.attempt} {ctx.fence} {os.getpid()}"])


def write_down(facts: Sequence[str]) -> None:
    """A line for each, whoever else writes at the same moment. A kill may cut one in two: only a
    line that ends in a dot is whole."""
    file = os.open(_FACTS, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, "".join(f"\n{fact} .\n" for fact in facts).encode())
    finally:
        os.close(file)


@app.task
async def work(ctx: Context, seconds: float) -> int:
    note("begin", ctx)
    await asyncio.sleep(seconds)
    note("end", ctx)
    return ctx.fence


@app.task
async def hold(ctx: Context, gate: str) -> int:
    """Runs until a file is there."""
    note("begin", ctx)
    while not os.path.exists(gate):  # noqa: ASYNC110, ASYNC240
        await asyncio.sleep(0.01)
    note("end", ctx)
    return ctx.fence


@app.task
async def rude(ctx: Context, seconds: float) -> int:
    """Blocks the event loop."""
    note("begin", ctx)
    time.sleep(seconds)  # noqa: ASYNC251
    note("end", ctx)
    return ctx.fence


@app.task
async def deadly(ctx: Context) -> None:
    note("begin", ctx)
    os.kill(os.getpid(), signal.SIGKILL)


@app.task(retry=_AT_ONCE)
async def second_time_lucky(ctx: Context) -> int:
    note("begin", ctx)
    if ctx.attempt == 1:
        raise ConnectionError("not yet")
    note("end", ctx)
    return ctx.attempt


@app.task
async def refuse(ctx: Context) -> None:
    note("begin", ctx)
    raise Reject("no")


@app.task(batch=3, batch_key=lambda item: item.partition("-")[0], max_wait=0.5, retry=_AT_ONCE)
async def digest(ctx: Context, items: list[str]) -> list[str]:
    """Notes the items of each call. Those that are called `late` fail at first."""
    write_down([f"call {','.join(items)} {ctx.attempt} {ctx.fence} {os.getpid()}"])
    if items[0].startswith("late") and ctx.attempt == 1:
        raise ConnectionError("not yet")
    return items


# Handlers that go wrong in ways that only a process of its own can be trusted with.


@app.task(retry=_AT_ONCE)
async def fork_in_loop(ctx: Context) -> int:
    return _forked(ctx)


@app.task(retry=_AT_ONCE)
def fork_in_thread(ctx: Context) -> int:
    return _forked(ctx)


@app.task(run_in="process", retry=_AT_ONCE)
def fork_in_process(ctx: Context) -> int:
    return _forked(ctx)


def _forked(ctx: Context) -> int:
    """Returns twice: the parent's answer is the one that counts."""
    pid = os.fork()
    note("begin" if pid else "forked", ctx)
    return 1 if pid else 2


@app.task(run_in="process", retry=_AT_ONCE)
def exit_process(ctx: Context, code: int) -> int:
    note("begin", ctx)
    if ctx.attempt == 1:
        os._exit(code)
    return ctx.attempt


@app.task(run_in="process", retry=_AT_ONCE)
def kill_process(ctx: Context) -> int:
    note("begin", ctx)
    if ctx.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return ctx.attempt


@app.task(retry=_TWICE)
async def end_in_loop(ctx: Context, ending: str) -> Any:
    note("begin", ctx)
    await asyncio.sleep(0)
    return ENDINGS[ending].act()


@app.task(retry=_TWICE)
def end_in_thread(ctx: Context, ending: str) -> Any:
    note("begin", ctx)
    return ENDINGS[ending].act()


@app.task(run_in="process", retry=_TWICE)
def end_in_process(ctx: Context, ending: str) -> Any:
    note("begin", ctx)
    return ENDINGS[ending].act()


@app.task(retry=_ONCE)
async def odd_in_loop(ctx: Context, name: str) -> Any:
    note("begin", ctx)
    await asyncio.sleep(0)
    value = ODD[name]()
    await asyncio.sleep(0)
    return value


@app.task(retry=_ONCE)
def odd_in_thread(ctx: Context, name: str) -> Any:
    note("begin", ctx)
    return ODD[name]()


@app.task(run_in="process", retry=_ONCE)
def odd_in_process(ctx: Context, name: str) -> Any:
    note("begin", ctx)
    return ODD[name]()


@app.task(run_in="process")
def echo_in_process(number: int) -> int:
    return number
