"""`context` makes a `Context` for the direct call of a function."""

from __future__ import annotations

from datetime import timedelta

import pytest

from headrace import ConfigError, Context, Headrace, HeadraceError, current
from headrace.testing import context


async def test_a_task_is_called_directly_with_it() -> None:
    app = Headrace("memory://")

    @app.task
    async def send(ctx: Context, to: str) -> str:
        ctx.progress(0.25)
        ctx.progress.increment(0.25, "half")
        ctx.log("on its way")
        async with ctx.once("charge") as charge:
            if charge.first:
                charge.value = "new"
        await ctx.flow.add(send.call(to))
        return f"{ctx.attempt} {ctx.headers['tenant']} {ctx.state} {charge.value}"

    ctx = context(app, attempt=2, headers={"tenant": "t"}, state="pool", once={"charge": "old"})
    assert await send(ctx, "ada") == "2 t pool old"  # type: ignore[arg-type, call-arg]
    assert ctx.reported == [(0.25, ""), (0.5, "half")]
    assert ctx.logged == ["on its way"]
    assert ctx.once_values == {"charge": "old"}
    assert [call.task for call in ctx.flow.added] == [send.name]


def test_within_it_is_the_current_one() -> None:
    with context(attempt=3, queue="mail", id="11111111111111111111111111111111") as ctx:
        assert current() is ctx
        assert (current().attempt, current().fence, current().queue) == (3, 3, "mail")
        with ctx.once("sync") as block:
            assert block.first
    with pytest.raises(HeadraceError, match="outside of a running task"):
        current()


def test_deadline_and_cancellation() -> None:
    assert context().deadline is None
    ctx = context(timeout=timedelta(minutes=1))
    assert ctx.deadline is not None
    assert not ctx.cancelled
    ctx.cancel()
    assert ctx.cancelled


def test_bad_input_gets_a_sentence() -> None:
    with pytest.raises(ConfigError, match=r"context\(attempt=\) must be a whole number"):
        context(attempt=0)
