"""Results that cannot travel: the work is done, and what it returned is shown."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from headrace import Headrace, JobFailed, Middleware, Reason, ResultLost, State, chain
from headrace.admin import Admin


class Trained:
    def __repr__(self) -> str:
        return "Trained(model-7)"


async def reason_of(job: Any) -> str:
    with pytest.raises(JobFailed) as failed:
        await job.result(30)
    return str(failed.value.reason)


async def test_the_job_is_done_and_shows_what_it_returned(
    app: Headrace, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task(name="in_loop")
    async def in_loop() -> object:
        return {"model": Trained()}

    @app.task(name="in_thread")
    def in_thread() -> object:
        return {"model": Trained()}

    async with app, app.worker():
        for task in (in_loop, in_thread):
            with caplog.at_level(logging.WARNING, "headrace.worker"):
                job = await task.enqueue()
                with pytest.raises(ResultLost) as lost:
                    await job.result(30)
            assert lost.value.shown == "{'model': Trained(model-7)}"
            assert f"{Trained.__module__}.Trained is not a type" in lost.value.problem
            info = await job.info()
            assert (info.state, info.result_kept, info.lost_result) == (
                State.DONE, False, "{'model': Trained(model-7)}",
            )  # fmt: skip
            said = [record.getMessage() for record in caplog.records]
            (line,) = [each for each in said if job.id in each]
            assert "is done, but its result is lost: task" in line
            assert "model-7" not in line


async def test_a_job_of_a_batch_loses_its_result_alone(app: Headrace) -> None:
    @app.task(batch=2, max_wait=60)
    async def both(numbers: list[int]) -> list[Any]:
        return [1, Trained()]

    async with app, app.worker():
        one, other = await app.enqueue_many(both.call(number) for number in range(2))
        assert await one.result(30) == 1
        with pytest.raises(ResultLost, match="model-7"):
            await other.result(30)


async def test_a_result_that_is_too_large_is_lost_and_not_its_work(app: Headrace) -> None:
    app.max_payload = 100

    @app.task
    async def much() -> bytes:
        return b"x" * 5_000

    async with app, app.worker():
        with pytest.raises(ResultLost, match="the limit is 100") as lost:
            await (await much.enqueue()).result(30)
    assert len(lost.value.shown) == 1_000
    assert lost.value.shown.startswith("b'xxx")


async def test_where_the_result_is_needed_the_job_is_dead(app: Headrace) -> None:
    heard: list[Any] = []

    async def hear(job: Any, result: Any) -> None:
        heard.append(result)

    @app.task(strict_result=True)
    async def strict() -> object:
        return Trained()

    @app.task(on_success=hear)
    async def followed() -> object:
        return Trained()

    @app.task
    async def first() -> object:
        return Trained()

    @app.task
    async def second(model: Any) -> None:
        heard.append(model)

    async with app, app.worker():
        assert await reason_of(await strict.enqueue()) == Reason.BAD_RESULT
        assert await reason_of(await followed.enqueue()) == Reason.BAD_RESULT
        flow = await app.enqueue(chain(first.call(), second.call()))
        assert await reason_of(flow) == Reason.PARENT_FAILED
    assert heard == []


async def test_what_is_shown_is_masked_as_other_texts_are(app: Headrace) -> None:
    class Card:
        def __init__(self, number: str) -> None:
            self.number = number

        def __repr__(self) -> str:
            return f"Card({self.number})"

    @app.task
    async def read(number: str) -> object:
        return Card(number)

    def redact(task: str, value: Any) -> Any:
        return {**value, "number": "***"} if isinstance(value, dict) else value

    async with app, app.worker():
        job = await read.enqueue("4111-1111")
        with pytest.raises(ResultLost):
            await job.result(30)
        admin: Admin = app.admin.redacted(redact)
        seen = await admin.job(job.id)
        clear = await app.admin.job(job.id)
    assert clear.lost_result == "Card(4111-1111)"
    assert seen.lost_result is not None
    assert "4111" not in seen.lost_result
    assert not seen.result_kept


@pytest.mark.parametrize("odd", ["raises", "empty", "deep"])
async def test_whatever_its_repr_does_the_job_is_done(app: Headrace, odd: str) -> None:
    class Odd:
        def __repr__(self) -> str:
            if odd == "raises":
                raise SystemExit(3)
            return ""

    def wide(levels: int) -> list[Any]:
        return [wide(levels - 1) if levels else object()] * 1_000

    @app.task
    async def task() -> object:
        return wide(3) if odd == "deep" else Odd()

    async with app, app.worker():
        with pytest.raises(ResultLost) as lost:
            await (await task.enqueue()).result(30)
    assert 0 < len(lost.value.shown) <= 1_000


async def test_middleware_sees_a_run_that_has_returned(app: Headrace) -> None:
    seen: list[str] = []

    class Seeing(Middleware):
        async def run(self, job: Any, call_next: Any) -> Any:
            value = await call_next()
            seen.append(type(value).__name__)
            return value

    app.middleware(Seeing())

    @app.task
    def train() -> object:
        return Trained()

    async with app, app.worker():
        with pytest.raises(ResultLost):
            await (await train.enqueue()).result(30)
    assert seen == ["Trained"]
