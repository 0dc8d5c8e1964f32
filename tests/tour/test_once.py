"""Effects that must not be repeated: `ctx.once`, on every store."""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import dataclass
from pathlib import Path

import pytest

from headrace import ConfigError, Context, Headrace, JobFailed, Retry, State

FAST = Retry(3, base=0.01)

# At the top level, as tasks that another process must import have to be.
processes = Headrace("memory://")


@dataclass
class Receipt:
    number: int
    paid_by: str


@processes.task(run_in="process", retry=FAST)
def charge_in_a_process(ctx: Context, ledger: str) -> tuple[Receipt, int]:
    with ctx.once("charge", Receipt) as charge:
        if charge.first:
            with Path(ledger).open("a") as book:
                book.write("charged\n")
            charge.value = Receipt(1, ctx.job.id)
    if ctx.attempt < 3:
        raise ConnectionError("after the charge")
    return charge.value, ctx.attempt


@processes.task(run_in="process", retry=FAST)
def charge_and_die(ctx: Context, ledger: str) -> int:
    with ctx.once("charge") as charge:
        if charge.first:
            with Path(ledger).open("a") as book:
                book.write("charged\n")
    if ctx.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return ctx.attempt


async def test_a_block_is_done_once_across_attempts(app: Headrace) -> None:
    charged: list[str] = []

    @app.task(retry=FAST)
    async def buy(ctx: Context) -> tuple[int, int]:
        async with ctx.once("charge") as charge:
            if charge.first:
                charged.append(f"{ctx.job.id}-charge")
                charge.value = len(charged)
        if ctx.attempt < 3:
            raise ConnectionError("after the charge")
        return charge.value, ctx.attempt

    async with app.worker():
        job = await buy.enqueue()
        assert await job.result(30) == (1, 3)
    assert charged == [f"{job.id}-charge"]


async def test_a_block_that_raises_is_done_again(app: Headrace) -> None:
    tries: list[bool] = []

    @app.task(retry=FAST)
    async def buy(ctx: Context) -> None:
        async with ctx.once("charge") as charge:
            tries.append(bool(charge))
            if ctx.attempt == 1:
                raise ConnectionError("no answer")

    async with app.worker():
        await (await buy.enqueue()).result(30)
    assert tries == [True, True]


async def test_blocks_of_other_names_and_other_jobs_are_their_own(app: Headrace) -> None:
    done: list[str] = []

    @app.task
    async def buy(ctx: Context, what: str) -> None:
        for name in ("charge", "mail it"):
            async with ctx.once(name) as block:
                if block:
                    done.append(f"{name} {what}")

    async with app.worker():
        for what in ("a", "b"):
            await (await buy.enqueue(what)).result(30)
    assert done == ["charge a", "mail it a", "charge b", "mail it b"]


async def test_a_value_keeps_its_type(app: Headrace) -> None:
    @app.task(retry=FAST)
    async def buy(ctx: Context) -> list[str]:
        async with ctx.once("charge", Receipt) as charge:
            if charge.first:
                charge.value = Receipt(7, "card")
        if ctx.attempt == 1:
            raise ConnectionError
        return [type(charge.value).__name__, charge.value.paid_by]

    async with app.worker():
        assert await (await buy.enqueue()).result(30) == ["Receipt", "card"]


async def test_a_thread_uses_a_plain_with(app: Headrace) -> None:
    charged: list[int] = []

    @app.task(retry=FAST)
    def buy(ctx: Context) -> int:
        with ctx.once("charge") as charge:
            if charge.first:
                charged.append(1)
                charge.value = 42
        if ctx.attempt == 1:
            raise ConnectionError
        value: int = charge.value
        return value

    async with app.worker():
        assert await (await buy.enqueue()).result(30) == 42
    assert charged == [1]


async def test_a_thread_with_a_loop_of_its_own_may_use_async_with(app: Headrace) -> None:
    async def work(ctx: Context) -> bool:
        async with ctx.once("charge") as charge:
            return charge.first

    @app.task
    def buy(ctx: Context) -> list[bool]:
        return [asyncio.run(work(ctx)) for _ in range(2)]

    async with app.worker():
        assert await (await buy.enqueue()).result(30) == [True, False]


async def test_a_process_uses_a_plain_with(tmp_path: Path) -> None:
    async with processes, processes.worker():
        job = await charge_in_a_process.enqueue(str(tmp_path / "ledger"))
        assert await job.result(60) == (Receipt(1, job.id), 3)
    assert (tmp_path / "ledger").read_text() == "charged\n"


async def test_a_process_that_dies_after_the_block_does_not_repeat_it(tmp_path: Path) -> None:
    async with processes, processes.worker():
        job = await charge_and_die.enqueue(str(tmp_path / "ledger"))
        assert await job.result(60) == 2
    assert (tmp_path / "ledger").read_text() == "charged\n"


async def test_a_dead_job_that_is_replayed_does_not_repeat_what_it_did(app: Headrace) -> None:
    charged: list[int] = []

    @app.task(retry=Retry(1))
    async def buy(ctx: Context) -> int:
        async with ctx.once("charge") as charge:
            if charge.first:
                charged.append(1)
                charge.value = 5
        if len(charged) == 1:
            charged.append(0)
            raise ConnectionError("after the charge")
        value: int = charge.value
        return value

    async with app.worker():
        job = await buy.enqueue()
        with pytest.raises(JobFailed):
            await job.result(30)
        assert await app.store.replay("default", [job.job_id]) == [True]
        while await job.status() is not State.DONE:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert await job.result(30) == 5
    assert charged == [1, 0]


async def test_a_value_that_cannot_travel_is_reported_and_the_block_not_repeated(
    app: Headrace,
) -> None:
    charged: list[int] = []
    errors: list[str] = []

    @app.task(retry=FAST)
    async def buy(ctx: Context) -> None:
        try:
            async with ctx.once("charge") as charge:
                if charge.first:
                    charged.append(1)
                    charge.value = object()
        except ConfigError as error:
            errors.append(str(error))
            raise

    async with app.worker():
        await (await buy.enqueue()).result(30)
    assert charged == [1]
    assert "once('charge'): its value cannot travel" in errors[0]


async def test_a_plain_with_in_an_async_task_says_what_to_write(app: Headrace) -> None:
    @app.task(retry=Retry(1))
    async def buy(ctx: Context) -> None:
        with ctx.once("charge"):
            pass

    async with app.worker():
        with pytest.raises(JobFailed, match="async with"):
            await (await buy.enqueue()).result(30)


@pytest.mark.parametrize("name", ["", "x" * 201, "two\nlines", 7])
async def test_a_name_that_is_none_is_refused(app: Headrace, name: str) -> None:
    @app.task(retry=Retry(1))
    async def buy(ctx: Context) -> None:
        ctx.once(name)

    async with app.worker():
        with pytest.raises(JobFailed, match="1 to 200 printable characters"):
            await (await buy.enqueue()).result(30)
