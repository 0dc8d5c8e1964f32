"""Tasks that are declared on a `Tasks`, and become those of an app that includes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headrace import ConfigError, Context, Headrace, Job, Retry, Tasks, chain


@pytest.fixture
def app() -> Headrace:
    return Headrace("memory://")


def work(number: int = 1) -> int:
    return 2 * number


def needs(number: int) -> None: ...


async def test_two_parts_may_each_have_a_send(app: Headrace) -> None:
    mail, reports = Tasks(prefix="mail"), Tasks(prefix="reports")

    @mail.task
    async def send(to: str) -> str:
        return f"to {to}"

    other = reports.task(name="send")(work)
    app.include(mail)
    app.include(reports, prefix="eu")
    assert sorted(app.tasks) == ["eu.reports.send", "mail.send"]
    async with app.worker():
        assert await (await send.enqueue("ada")).result(10) == "to ada"
        job: Job[int] = await other.enqueue(21)
        assert await job.result(10) == 42
        assert await app.job(job.id, other).result(10) == await other.job(job.id).result(10) == 42


async def test_a_task_works_here_before_it_is_included(app: Headrace) -> None:
    tasks = Tasks(prefix="mail")

    @tasks.task
    async def send(ctx: Context, to: str) -> int:
        return ctx.attempt

    urgent = send.options(priority=9)
    most_urgent = urgent.options(key="ada")
    plain = tasks.task(work)
    assert plain(2) == 4
    said = r"task 'mail\.(send|work)' of .* on Tasks\(prefix='mail'\), which no app includes: call"
    uses: list[Callable[[], object]] = [
        lambda: send.enqueue_sync("ada"),
        lambda: urgent.enqueue_sync("ada"),
        lambda: send.call("ada"),
        lambda: chain(plain.call(1)),
        lambda: send.job("x").result_sync(1),
        lambda: app.on("done", task=send),
        lambda: app.task(on_dead=send)(print),
    ]
    for use in uses:
        with pytest.raises(ConfigError, match=said):
            use()
    with pytest.raises(ConfigError, match=said):
        await send.enqueue("ada")
    app.include(tasks)
    job = await most_urgent.enqueue("ada")
    found = await app.admin.job(job.id)
    assert (found.task, found.priority, found.key) == ("mail.send", 9, "ada")
    async with app.worker():
        assert await job.result(10) == 1


async def test_parts_of_parts_have_all_prefixes_and_defaults(app: Headrace) -> None:
    inner, outer = Tasks(prefix="mail"), Tasks(prefix="shop")
    inner.defaults(queue="mail", timeout=5)
    one = inner.task(work)
    inner.every(60, name="beat", args=[1])(one)
    outer.defaults(timeout=7, retry=Retry(3), queue="shop")
    outer.include(inner, prefix="eu")
    app.defaults(retry=Retry(9), priority=4)
    app.include(outer, prefix="all")
    two = inner.task(timeout=9, name="late")(work)
    assert sorted(app.tasks) == ["all.shop.eu.mail.late", "all.shop.eu.mail.work"]
    assert sorted(app.schedules.declared) == ["all.shop.eu.mail.beat"]
    for task, timeout in ((one, 5), (two, 9)):
        declared = task.declared
        assert (declared.queue, declared.timeout, declared.priority) == ("mail", timeout, 4)
        assert declared.retry.max_attempts == 3
    assert app.schedules.declared["all.shop.eu.mail.beat"].task == one.name


async def test_handlers_and_schedules_of_a_part_are_those_of_the_app(app: Headrace) -> None:
    tasks, ended = Tasks(prefix="mail"), []

    @tasks.task
    def note(job: str, result: int) -> None: ...

    @tasks.task(on_success=note)
    def first() -> int:
        return 1

    @tasks.task(on_success=lambda job, result: ended.append((job.id, result)))
    def second() -> int:
        return 2

    @tasks.cron("0 3 * * *")
    def nightly() -> None: ...

    app.include(tasks)
    assert first.on_success is note
    assert sorted(app.tasks) == [
        "mail.first", "mail.nightly", "mail.note", "mail.second", "mail.second.on_success"
    ]  # fmt: skip
    assert sorted(app.schedules.declared) == ["mail.nightly"]
    async with app.worker():
        job = await second.enqueue()
        assert await job.result(10) == 2
        while not ended:
            await job.status()
    assert ended == [(job.id, 2)]


async def test_a_part_that_is_included_while_a_worker_runs_is_served(app: Headrace) -> None:
    app.task(name="other")(work)
    tasks = Tasks()
    late = tasks.task(work)
    async with app.worker():
        app.include(tasks)
        assert await (await late.enqueue(4)).result(10) == 8


def test_names_that_collide_are_refused_with_both_modules_and_nothing_is_left(
    app: Headrace,
) -> None:
    app.task(work)
    tasks = Tasks()
    fresh = tasks.task(name="fresh")(work)
    again = tasks.task(work)
    tasks.every(60, args=[1])(fresh)
    here = rf"{__name__}\.work"
    said = (
        rf"two tasks are named 'work': {here} and {here}; give one .*name=…\), or .* Tasks\(prefix"
    )
    with pytest.raises(ConfigError, match=said):
        app.include(tasks)
    assert sorted(app.tasks) == ["work"]
    with pytest.raises(ConfigError, match="which no app includes"):
        fresh.call(1)
    app.include(tasks, prefix="second")
    assert (fresh.name, again.name) == ("second.fresh", "second.work")
    with pytest.raises(ConfigError, match=r"two tasks are named 'second\.fresh'"):
        tasks.task(name="fresh")(work)
    assert sorted(app.schedules.declared) == ["second.fresh"]


def test_a_part_belongs_to_one_app(app: Headrace) -> None:
    tasks, outer = Tasks(prefix="mail"), Tasks()
    app.include(tasks)
    for other in (Headrace("memory://"), app, outer):
        with pytest.raises(ConfigError, match=r"Tasks\(prefix='mail'\) is included already"):
            other.include(tasks)
    with pytest.raises(ConfigError, match="cannot be a part of itself"):
        outer.include(outer)
    inner = Tasks()
    outer.include(inner)
    with pytest.raises(ConfigError, match="cannot be a part of itself"):
        inner.include(outer)


def test_what_is_wrong_is_refused_where_it_is_declared(app: Headrace) -> None:
    tasks = Tasks(prefix="mail")
    wrong: Any = tasks
    for declare in (
        lambda: wrong.task(timeout=-1)(work),
        lambda: wrong.task(colour="red")(work),
        lambda: wrong.task(on_dead=5)(work),
        lambda: wrong.cron("61 * * * *")(work),
        lambda: wrong.every(60, args=["one", 2])(work),
        lambda: wrong.every(60)(needs),
        lambda: wrong.defaults(colour="red"),
        lambda: Tasks(prefix="mail."),
        lambda: Tasks(prefix="two words"),
        lambda: app.include(tasks, prefix="."),
        lambda: app.include("shop.mail"),  # type: ignore[arg-type]
    ):
        with pytest.raises((ConfigError, TypeError)):
            declare()
    app.include(tasks)
    assert not app.tasks
    with pytest.raises(ConfigError, match=r"modules are named where the app is made"):
        app.include("shop.mail")  # type: ignore[arg-type]
