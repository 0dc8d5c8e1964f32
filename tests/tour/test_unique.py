"""Unique jobs: sending twice is sending once, on every store."""

from __future__ import annotations

import asyncio

from headrace import Headrace, Retry, State, Task


def counting(app: Headrace, runs: list[int]) -> Task[..., int]:
    @app.task(unique=True, retry=Retry(1))
    def count(a: int, b: int = 0) -> int:
        runs.append(a)
        if a < 0:
            raise ValueError("negative")
        return a + b

    return count


async def test_the_second_caller_is_given_the_first_job(app: Headrace) -> None:
    runs: list[int] = []
    count = counting(app, runs)
    first = await count.enqueue(1, 2)
    assert await count.enqueue(1, b=2) == first
    assert await count.enqueue(1, 3) != first
    async with app.worker():
        assert await first.result(30) == 3
    assert runs.count(1) == 2


async def test_many_at_the_same_moment_are_one_job(app: Headrace) -> None:
    count = counting(app, [])
    jobs = await asyncio.gather(*(count.enqueue(1, 2) for _ in range(50)))
    jobs += await app.enqueue_many(count.call(1, 2) for _ in range(50))
    assert len(set(jobs)) == 1
    assert (await app.store.count("default")).waiting == 1


async def test_in_one_batch_each_call_is_given_its_own_job(app: Headrace) -> None:
    count = counting(app, [])
    plain = count.options(unique=False)
    calls = [count.call(1, 1), plain.call(1, 1), count.call(2, 2), count.call(1, 1)]
    calls.append(count.options(queue="other").call(1, 1))
    first, free, second, again, elsewhere = await app.enqueue_many(calls)
    assert first == again
    assert len({first, free, second, elsewhere}) == 4


async def test_the_name_is_free_when_the_job_has_ended(app: Headrace) -> None:
    count = counting(app, [])
    async with app.worker():
        done, dead = await count.enqueue(1, 2), await count.enqueue(-1, 2)
        for job, state in ((done, State.DONE), (dead, State.DEAD)):
            async for update in job.watch(poll=0.02):
                if update.state.final:
                    assert update.state is state
        assert await count.enqueue(1, 2) != done
        assert await count.enqueue(-1, 2) != dead
    cancelled = await count.enqueue(5, 5)
    await cancelled.cancel()
    assert await count.enqueue(5, 5) != cancelled


async def test_a_name_can_be_kept_after_the_end(app: Headrace) -> None:
    @app.task(unique=lambda number: f"n-{number}", unique_for=60)
    async def count(number: int) -> int:
        return number

    async with app.worker():
        first = await count.enqueue(1)
        assert await first.result(30) == 1
        assert await count.enqueue(1) == first
        assert await count.options(unique_for=0).enqueue(2) != first


async def test_a_debounced_job_runs_once_with_the_latest_arguments(app: Headrace) -> None:
    seen: list[str] = []

    @app.task(unique=lambda page, text: page, debounce=0.3)
    async def save(page: str, text: str) -> str:
        seen.append(text)
        return text

    async with app.worker():
        jobs = [await save.enqueue("home", text) for text in ("a", "ab", "abc")]
        assert len(set(jobs)) == 1
        assert await jobs[0].result(30) == "abc"
        assert seen == ["abc"]
        assert await save.enqueue("home", "abcd") != jobs[0]
