"""The results of other jobs as the first argument, wherever the function runs."""

from __future__ import annotations

import pytest

from headrace import Headrace, JobFailed, chain, group
from headrace.core.job.envelope import Overrides, encode_envelope
from headrace.core.job.ids import new_id, to_text
from headrace.core.job.parcel import Parcel

# At the top level, as tasks that another process must import have to be.
elsewhere = Headrace("memory://")


@elsewhere.task(result_ttl=0)
async def one(number: int) -> int:
    return number


@elsewhere.task(run_in="process", result_ttl=0)
def total(numbers: list[int], more: int = 0) -> int:
    return sum(numbers) + more


@elsewhere.task(run_in="process")
def text(number: int, end: str) -> str:
    return f"{number}{end}"


async def test_results_that_are_not_kept_are_passed_on_to_processes() -> None:
    flow = group([one.call(1), one.call(2)]).then(total.call(more=4)).then(text.call(end="!"))
    async with elsewhere, elsewhere.worker():
        assert await (await elsewhere.enqueue(flow)).result(60) == "7!"


async def test_a_batch_task_takes_part_in_a_chain(app: Headrace) -> None:
    @app.task(result_ttl=0)
    def first(number: int) -> int:
        return number

    @app.task(batch=10, max_wait=0.01)
    async def doubled(numbers: list[int]) -> list[int]:
        return [number * 2 for number in numbers]

    async with app.worker():
        flow = chain(first.call(21), doubled.call())
        assert await (await app.enqueue(flow)).result(30) == 42


async def test_a_job_whose_input_is_missing_is_unfit(app: Headrace) -> None:
    @app.task
    async def double(number: int) -> int:
        return number * 2

    job_id = new_id()
    envelope = encode_envelope(job_id, "double", b"\x90", Overrides(feed="one"))
    async with app.worker():
        await app.store.append("default", [Parcel(job_id, envelope)])
        with pytest.raises(JobFailed, match="first argument is missing") as failed:
            await app.job(to_text(job_id)).result(30)
    assert failed.value.reason == "bad_arguments"
