"""An edit that would change what a constraint is made of is refused, and changes nothing."""

from __future__ import annotations

from typing import Any

import pytest

from headrace import ConfigError, Context, Headrace, Job, JobFailed, Reject, Retry, State, chain
from headrace.core.job.constraints import Constraints, decode_constraints
from headrace.core.job.ids import to_id


async def constraints(app: Headrace, id: str) -> Constraints:
    (seen,) = await (await app.session()).store.get("default", [to_id(id)], bodies=True)
    assert seen
    return decode_constraints(seen.constraints)


async def dead(app: Headrace, *jobs: Job[None]) -> None:
    """Run these jobs, all of which fail."""
    async with app.worker():
        for job in jobs:
            with pytest.raises(JobFailed):
                await job.result(timeout=20)


async def test_an_edit_cannot_change_what_makes_a_job_unique(app: Headrace) -> None:
    @app.task(retry=Retry(1), unique=lambda to, text="": to)
    async def send(to: str, text: str = "") -> None:
        raise Reject("no")

    job = await send.enqueue("ann")
    await dead(app, job)
    before = await constraints(app, job.id)
    expected = (
        f"job {job.id} cannot be edited: unique= of task '{send.name}' is made of its arguments, "
        "and differs with the new 'to'; enqueue a new job, and purge this one"
    )
    with pytest.raises(ConfigError) as refused:
        await app.admin.replay(job.id, edit={"to": "bob"})
    assert str(refused.value) == expected
    assert await job.status() is State.DEAD
    assert await app.admin.replay(job.id, edit={"text": "hello"}) == 1
    assert await constraints(app, job.id) == before
    assert (await send.enqueue("ann")).id == job.id
    assert (await send.enqueue("bob")).id != job.id


async def test_an_edit_cannot_change_a_job_that_is_unique_by_all_arguments(app: Headrace) -> None:
    @app.task(retry=Retry(1), unique=True)
    async def declared(to: str, price: float = 1.5) -> None:
        raise Reject("no")

    @app.task(retry=Retry(1))
    async def called(to: str) -> None:
        raise Reject("no")

    # A whole number is read as a float, and was counted as it was sent.
    jobs = [await declared.enqueue("ann", 2), await called.options(unique=True).enqueue("ann")]
    await dead(app, *jobs)
    for job in jobs:
        with pytest.raises(ConfigError, match=r"unique= of task .* with the new 'to'; enqueue"):
            await app.admin.replay(job.id, edit={"to": "bob"})
        assert await app.admin.replay(job.id, edit={"to": "ann"}) == 1


async def test_an_edit_cannot_change_the_key_of_a_rate(app: Headrace) -> None:
    @app.task(retry=Retry(1), rate="5/h", rate_key=lambda to, text="": to)
    async def send(to: str, text: str = "") -> None:
        raise Reject("no")

    job = await send.enqueue("ann")
    await dead(app, job)
    before = await constraints(app, job.id)
    with pytest.raises(ConfigError, match=r"rate_key= of task .* with the new 'to'; enqueue"):
        await app.admin.replay(job.id, edit=lambda given: {**given, "to": "bob"})
    assert await app.admin.replay(job.id, edit={"text": "hello"}) == 1
    assert await constraints(app, job.id) == before


async def test_an_edit_cannot_change_the_key_of_a_batch(app: Headrace) -> None:
    @app.task(retry=Retry(1), batch=2, max_wait=0.01, batch_key="shop")
    async def index(items: list[dict[str, str]]) -> None:
        raise Reject("no")

    job = await index.enqueue({"shop": "one", "name": "a"})
    await dead(app, job)
    with pytest.raises(ConfigError, match=r"batch_key= of task .* with the new 'items'; enqueue"):
        await app.admin.replay(job.id, edit={"items": {"shop": "two", "name": "a"}})
    assert await app.admin.replay(job.id, edit={"items": {"shop": "one", "name": "b"}}) == 1


async def test_none_of_several_is_sent_if_one_would_change_its_name(app: Headrace) -> None:
    @app.task(retry=Retry(1), unique=lambda to: to)
    async def send(to: str) -> None:
        raise Reject("no")

    jobs = [await send.enqueue("ann"), await send.enqueue("bob")]
    await dead(app, *jobs)
    with pytest.raises(ConfigError, match=f"job {jobs[1].id} cannot be edited: unique="):
        await app.admin.replay([job.id for job in jobs], edit={"to": "ann"})
    assert [await job.status() for job in jobs] == [State.DEAD, State.DEAD]


async def test_what_the_call_named_itself_stays_with_other_arguments(app: Headrace) -> None:
    @app.task(retry=Retry(1), unique=lambda to: to, rate="5/h", rate_key=lambda to: to)
    async def send(to: str) -> None:
        raise Reject("no")

    @app.task(retry=Retry(1), unique=True)
    async def post(to: str) -> None:
        raise Reject("no")

    given = send.options(unique="mine", rate_key="ours", key="k")
    jobs = [await given.enqueue("ann"), await post.options(unique="mine").enqueue("ann")]
    await dead(app, *jobs)
    for job in jobs:
        before = await constraints(app, job.id)
        assert await app.admin.replay(job.id, edit={"to": "bob"}) == 1
        assert await constraints(app, job.id) == before


async def test_a_debounced_job_has_no_name_left_and_can_be_edited(app: Headrace) -> None:
    @app.task(retry=Retry(1), debounce=0.01)
    async def send(to: str) -> None:
        raise Reject("no")

    job = await send.enqueue("ann")
    await dead(app, job)
    assert await app.admin.replay(job.id, edit={"to": "bob"}) == 1
    assert (await send.enqueue("ann")).id != job.id


async def test_a_job_of_a_flow_is_refused_with_what_to_do_about_the_flow(app: Headrace) -> None:
    @app.task
    async def give() -> int:
        return 1

    @app.task(retry=Retry(1), unique=True)
    async def add(ctx: Context, number: int, plus: int) -> int:
        raise Reject("no")

    flow = await app.enqueue(chain(give.call(), add.call(plus=1)))
    async with app.worker():
        with pytest.raises(JobFailed):
            await flow.result(timeout=20)
    with pytest.raises(ConfigError, match=r"unique= .* new 'plus'; send a new flow, and purge"):
        await app.admin.replay(flow.id, edit={"plus": 2})
    assert await app.admin.replay(flow.id, edit={"plus": 1}) == 1


async def test_arguments_that_do_not_fit_are_mended_where_no_name_changes(app: Headrace) -> None:
    def by_person(to: str, times: object = 1) -> str:
        return to

    @app.task(retry=Retry(1), unique=by_person)
    async def send(to: str, times: int = 1) -> None: ...

    odd: Any = "two"
    job = await send.enqueue("ann", odd)
    await dead(app, job)
    with pytest.raises(ConfigError, match="unique="):
        await app.admin.replay(job.id, edit={"to": "bob", "times": 2})
    assert await app.admin.replay(job.id, edit={"times": 2}) == 1
