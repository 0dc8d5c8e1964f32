"""Arguments that do not fit: each sentence names them, wherever it is read."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from headrace import ArgumentError, Headrace, Job, JobFailed, ResultUnreadable, chain
from headrace.core.job import ids
from headrace.core.job.envelope import encode_envelope
from headrace.core.job.parcel import Parcel

TAKES = "it takes pay(amount: int, currency: str)"


@pytest.fixture
async def app() -> AsyncIterator[Headrace]:
    app = Headrace("memory://")

    @app.task
    async def pay(amount: int, currency: str) -> dict[str, Any]:
        return {"cents": "x"}

    async with app:
        yield app


async def foreign(app: Headrace, payload: object) -> Job[Any]:
    """A job of a sender that knows no types."""
    store, id = (await app.session()).store, ids.new_id()
    envelope = encode_envelope(id, "pay", msgspec.msgpack.encode(payload))
    await store.append("default", [Parcel(id, envelope)])
    return app.job(ids.to_text(id))


@pytest.mark.parametrize(
    ("payload", "sentence"),
    [
        ([1], f"argument 'currency' is missing: {TAKES}"),
        ([1, "EUR", 3], f"there are 3 arguments: {TAKES}"),
        ([1, 2], "argument 'currency': expected `str`, got `int`"),
        ({"amount": 1}, f"argument 'currency' is missing: {TAKES}"),
        ({"amount": [1], "currency": "EUR"}, "argument 'amount': expected `int`, got `list`"),
        ({"amount": 1, "currency": "EUR", "note": 3}, f"there is no argument 'note': {TAKES}"),
    ],
)
async def test_a_job_says_which_argument_does_not_fit(
    app: Headrace, payload: object, sentence: str
) -> None:
    job = await foreign(app, payload)
    async with app.worker():
        with pytest.raises(JobFailed) as caught:
            await job.result(20)
    assert caught.value.reason == "bad_arguments"
    assert caught.value.error_text.startswith(sentence)
    (dead,) = await app.admin.dead()
    assert dead.error_text == caught.value.error_text


async def test_a_replay_says_which_argument_does_not_fit(app: Headrace) -> None:
    job = await foreign(app, {"amount": "x"})
    async with app.worker():
        with pytest.raises(JobFailed):
            await job.result(20)
        for edit, argument in (
            ({"amount": "y", "currency": "EUR"}, "'amount': expected `int`, got `str`"),
            ({"amount": 1}, "missing a required argument: 'currency'"),
            ({"amount": 1, "curency": "EUR"}, "there is no argument 'curency': it takes pay"),
        ):
            with pytest.raises(ArgumentError, match=f"job {job.id}: .*{argument}"):
                await app.admin.replay(job.id, edit=edit)
        assert await app.admin.replay(job.id, edit={"amount": 1, "currency": "EUR"}) == 1
        assert await job.result(20) == {"cents": "x"}


async def test_a_replay_leaves_out_what_the_task_does_not_take_only_if_told_to(
    app: Headrace,
) -> None:
    job = await foreign(app, {"amount": 1, "note": 3})
    async with app.worker():
        with pytest.raises(JobFailed):
            await job.result(20)
        with pytest.raises(ArgumentError, match="no argument 'note': it takes pay"):
            await app.admin.replay(job.id, edit={"currency": "EUR"})

        def without_note(given: dict[str, Any]) -> dict[str, Any]:
            return {"amount": given["note"], "currency": "EUR"}

        assert await app.admin.replay(job.id, edit=without_note) == 1
        assert await job.result(20) == {"cents": "x"}


async def test_results_that_are_passed_on_or_read_are_named(app: Headrace) -> None:
    class Receipt(msgspec.Struct):
        cents: int

    @app.task
    async def anything() -> Any:
        return "text"

    flow = await app.enqueue(chain(anything.call(), app.tasks["pay"].call(currency="EUR")))
    job = await foreign(app, [1, "EUR"])
    async with app.worker():
        with pytest.raises(JobFailed, match="argument 'amount': expected `int`, got `str`"):
            await flow.result(20)
        await job.result(20)
        typed = Job[Receipt](app, ids.to_id(job.id), "default", Receipt)
        with pytest.raises(ResultUnreadable, match="expected `int`, got `str`, at `cents`"):
            await typed.result(20)
