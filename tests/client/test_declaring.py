"""What is refused when it is declared leaves nothing behind: mended, it is taken."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any

import pytest

from headrace import ArgumentError, ConfigError, Headrace, HeadraceError, Middleware, UnknownJob


async def work(number: int = 1) -> None: ...


async def handle(event: str) -> None: ...


async def state() -> AsyncIterator[None]:
    yield


def declared(app: Headrace) -> list[object]:
    """All that an app knows of what was declared."""
    topics = app.topics.values()
    groups = [each for topic in topics for each in topic.subscriptions.values()]
    return [
        sorted(app.tasks), sorted(app.schedules.declared), sorted(app.queues), sorted(app.topics),
        sorted(app.queue_settings), list(app.middlewares), list(app.error_hooks), list(app.audits),
        list(app.listeners), app.lifespan_function,
        [(sorted(topic.subscriptions), sorted(topic.broadcasts)) for topic in topics],
        [each.dead_handler for each in groups],
    ]  # fmt: skip


Declare = Callable[[Any], Any]
_CASES: dict[str, tuple[Declare, Declare]] = {
    "task": (lambda app: app.task(timeout=-1)(work), lambda app: app.task(work)),
    "handler of a task": (
        lambda app: app.task(on_success=handle, on_dead=lambda a, b, c: None)(work),
        lambda app: app.task(on_success=handle, on_dead=lambda a, b: None)(work),
    ),
    "listener": (lambda app: app.on("done", task="")(print), lambda app: app.on("done")(print)),
    "cron": (lambda app: app.cron("61 * * * *")(work), lambda app: app.cron("1 * * * *")(work)),
    "zone": (
        lambda app: app.cron("1 * * * *", timezone="Mars/Base")(work),
        lambda app: app.cron("1 * * * *")(work),
    ),
    "every": (lambda app: app.every(0)(work), lambda app: app.every(60)(work)),
    "arguments": (
        lambda app: app.every(60, args=["one", 2])(work),
        lambda app: app.every(60, args=[1])(work),
    ),
    "schedule's name": (
        lambda app: app.every(60, name="")(work),
        lambda app: app.every(60, name="beat")(work),
    ),
    "task of a schedule": (
        lambda app: app.every(60, timeout=-1)(work),
        lambda app: app.every(60)(work),
    ),
    "queue": (
        lambda app: app.queue("mail", rate="many"),
        lambda app: app.queue("mail", rate="5/s"),
    ),
    "topic": (
        lambda app: app.topic("notes", str, shards=0),
        lambda app: app.topic("notes", str, shards=2),
    ),
    "subscribe": (
        lambda app: app.topics["orders"].subscribe("audit", timeout=-1)(handle),
        lambda app: app.topics["orders"].subscribe("audit")(handle),
    ),
    "batch": (
        lambda app: app.topics["orders"].subscribe("audit", batch=0)(handle),
        lambda app: app.topics["orders"].subscribe("audit")(handle),
    ),
    "broadcast": (
        lambda app: app.topics["orders"].broadcast(retry=3)(handle),
        lambda app: app.topics["orders"].broadcast(handle),
    ),
    "on_dead": (
        lambda app: app.topics["orders"].on_dead("billing")(lambda a, b, c: None),
        lambda app: app.topics["orders"].on_dead("billing")(handle),
    ),
    "lifespan": (lambda app: app.lifespan(work), lambda app: app.lifespan(state)),
    "middleware": (
        lambda app: app.middleware(Middleware(), object()),
        lambda app: app.middleware(Middleware()),
    ),
    "on_error": (lambda app: app.on_error(7), lambda app: app.on_error(print)),
    "audit": (
        lambda app: app.audit(print, on_error="shrug"),
        lambda app: app.audit(print, on_error="keep"),
    ),
}


@pytest.mark.parametrize("kind", _CASES)
def test_what_is_refused_leaves_nothing_behind(kind: str) -> None:
    app = Headrace("memory://")
    app.topic("orders", str).subscribe("billing")(handle)
    before = declared(app)
    wrong, right = _CASES[kind]
    with pytest.raises(HeadraceError):
        wrong(app)
    assert declared(app) == before
    right(app)
    assert declared(app) != before


def test_a_schedule_of_a_name_that_is_taken_makes_no_task() -> None:
    app = Headrace("memory://")
    app.every(60, name="beat")(work)

    async def other() -> None: ...

    with pytest.raises(HeadraceError, match="two schedules are named 'beat'"):
        app.every(60, name="beat")(other)
    assert list(app.tasks) == ["work"]


def test_a_task_of_a_name_that_is_taken_makes_no_schedule() -> None:
    app = Headrace("memory://")
    app.task(work)
    with pytest.raises(HeadraceError, match="two tasks are named 'work'"):
        app.every(60)(work)
    assert app.schedules.declared == {}


def test_a_schedule_that_lacks_an_argument_says_where_to_give_it() -> None:
    app = Headrace("memory://")

    async def greet(name: str) -> None: ...

    with pytest.raises(ArgumentError, match=r"give the schedule args=\[…\] or kwargs=\{…\}"):
        app.cron("@daily")(greet)
    app.cron("@daily", args=["ann"])(greet)


def test_the_time_for_unknown_tasks_is_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Headrace("memory://").unknown_task_after == timedelta(hours=1)
    monkeypatch.setenv("HEADRACE_UNKNOWN_TASK_AFTER", "30m")
    assert Headrace("memory://").unknown_task_after == timedelta(minutes=30)
    assert Headrace("memory://", unknown_task_after=5).unknown_task_after == timedelta(seconds=5)
    monkeypatch.setenv("HEADRACE_UNKNOWN_TASK_AFTER", "soon")
    with pytest.raises(ConfigError, match="'soon' is not a time: 90"):
        Headrace("memory://")
    with pytest.raises(ConfigError, match="unknown_task_after"):
        Headrace("memory://", unknown_task_after=-1)


async def rescue(job: UnknownJob) -> None: ...


def test_an_app_has_one_fallback_which_takes_a_job() -> None:
    app = Headrace("memory://", unknown_task_after=60)
    with pytest.raises(ConfigError, match="annotate it as UnknownJob"):
        app.fallback(handle)  # type: ignore[type-var]
    with pytest.raises(ConfigError, match="must take the job, an UnknownJob, as its first"):
        app.fallback(lambda: None)  # type: ignore[type-var]
    with pytest.raises(ConfigError, match="after is longer than unknown_task_after"):
        app.fallback(after=61)(rescue)
    with pytest.raises(ConfigError, match=r"app.fallback\(\) has no 'queue'; it takes after, "):
        app.fallback(queue="mail")(rescue)  # type: ignore[call-overload]
    assert app.fallback(rescue) is rescue
    with pytest.raises(ConfigError, match="has a fallback already"):
        app.fallback(rescue)


@pytest.mark.parametrize(
    "declare",
    [
        lambda app: app.task(timeout=None, on_timeout="dead")(work),
        lambda app: app.every(60, timeout=None, on_timeout="dead")(work),
        lambda app: app.fallback(timeout=None, on_timeout="dead")(unknown),
        lambda app: app.topic("t", str).subscribe("g", timeout=None, on_timeout="dead")(handle),
    ],
)
def test_what_never_times_out_cannot_say_what_that_means(declare: Declare) -> None:
    app = Headrace("memory://")
    with pytest.raises(ConfigError, match="timeout=None is no limit, so on_timeout='dead' would"):
        declare(app)
    # Said at two places, it is no contradiction: the timeout is the exception.
    app.defaults(on_timeout="dead")
    assert app.task(timeout=None)(work).declared.timeout is None


def unknown(job: UnknownJob) -> None: ...


def needs(first: int, second: int) -> None: ...


def test_a_schedule_without_arguments_says_how_it_is_given_them() -> None:
    app = Headrace("memory://")
    said = r"missing a required argument: 'first'; .*; give the schedule args=\[…\] or kwargs="
    with pytest.raises(ArgumentError, match=said):
        app.cron("@daily")(needs)
    with pytest.raises(ArgumentError, match="missing a required argument: 'second'"):
        app.cron("@daily", args=[1])(needs)


def test_a_worker_without_upkeep_fires_no_schedules() -> None:
    app = Headrace("memory://")
    app.task(work)
    with pytest.raises(ConfigError, match="a worker without upkeep fires no schedules"):
        app.worker(upkeep=False, schedules=True)
    made = [app.worker(), app.worker(upkeep=False), app.worker(schedules=False)]
    assert [each.settings.schedules for each in made] == [True, False, False]
