"""What can be `on_success` and `on_dead` of a task."""

from __future__ import annotations

from typing import Any

import pytest

from headrace import ConfigError, Context, Headrace, Job, JobFailed


async def work(number: int = 1) -> int:
    return number


def nothing() -> None: ...


def three(job: Any, result: Any, more: Any) -> None: ...


def named(job: Any, *, result: Any) -> None: ...


def many(*jobs: Any) -> None: ...


def only_context(ctx: Context) -> None: ...


def lazily(job: Any) -> Any:
    yield job


def unsendable(job: Any, result: object) -> None: ...


unsendable.__annotations__["result"] = Headrace


@pytest.mark.parametrize("option", ["on_success", "on_dead"])
@pytest.mark.parametrize(
    "wrong", [7, "work", Job, nothing, three, named, many, only_context, lazily]
)
def test_what_cannot_be_a_handler_is_refused_when_declared(option: str, wrong: Any) -> None:
    app = Headrace("memory://")
    options: Any = {option: wrong}
    with pytest.raises(ConfigError, match=f"task 'work': {option} "):
        app.task(**options)(work)
    assert not app.tasks
    options = {option: lambda job: None}
    app.task(**options)(work)
    assert sorted(app.tasks) == ["work", f"work.{option}"]


def test_a_handler_whose_parameter_cannot_travel_is_refused() -> None:
    app = Headrace("memory://")
    with pytest.raises(ConfigError, match="cannot travel"):
        app.task(on_success=unsendable)(work)
    assert not app.tasks


def test_a_task_of_another_app_or_of_batches_is_no_handler() -> None:
    app, other = Headrace("memory://"), Headrace("memory://")

    @other.task
    async def elsewhere(job: str) -> None: ...

    @app.task(batch=10)
    async def batched(jobs: list[str]) -> None: ...

    with pytest.raises(ConfigError, match="another app"):
        app.task(on_dead=elsewhere)(work)
    with pytest.raises(ConfigError, match="batch"):
        app.task(on_dead=batched)(work)
    assert sorted(app.tasks) == ["batched"]


def test_two_tasks_cannot_have_handlers_of_one_name() -> None:
    app = Headrace("memory://")

    @app.task(name="work.on_dead")
    async def other() -> None: ...

    with pytest.raises(ConfigError, match=r"two tasks are named 'work\.on_dead'"):
        app.task(on_dead=lambda job: None)(work)
    assert sorted(app.tasks) == ["work.on_dead"]


def test_a_handler_is_in_the_queue_of_its_task_and_has_the_defaults_of_the_app() -> None:
    app = Headrace("memory://")
    app.defaults(timeout=7, queue="other")

    async def thank(job: Job[int], result: int) -> None: ...

    def excuse(job: Job[int], failure: JobFailed) -> None: ...

    task = app.task(queue="pay", timeout=1, on_success=thank, on_dead=excuse)(work)
    assert task.on_success is not None
    assert task.on_dead is not None
    for handler, runner in ((task.on_success, "loop"), (task.on_dead, "thread")):
        said = handler.declared
        assert (said.queue, said.timeout, said.run_in) == ("pay", 7, runner)
    assert app.every(60, on_dead=excuse, name="often")(nothing).on_dead is not None
