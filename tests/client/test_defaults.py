"""`app.defaults()`: options of tasks that do not say otherwise."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from headrace import ConfigError, Headrace, Retry


def test_tasks_that_say_nothing_have_the_defaults_of_the_app() -> None:
    app = Headrace("memory://")

    @app.task
    async def before() -> None: ...

    app.defaults(timeout=7, retry=Retry(9), result_ttl=0, queue="slow", priority=4)
    app.defaults(keep_done=timedelta(minutes=5), priority=5)

    @app.task
    async def plain() -> None: ...

    @app.task(timeout=None, retry=Retry(2), result_ttl=60, queue="fast", priority=0)
    async def own() -> None: ...

    @app.task(retry=None)
    async def half() -> None: ...

    @app.every(60)
    async def often() -> None: ...

    assert before.declared.timeout == 300
    for task in (plain, half, often):
        said = task.declared
        assert (said.timeout, said.result_ttl, said.queue, said.priority) == (7, 0, "slow", 5)
        assert said.retry.max_attempts == 9
        assert said.keep_done == timedelta(minutes=5)
    said = own.declared
    assert (said.timeout, said.result_ttl, said.queue, said.priority) == (None, 60, "fast", 0)
    assert said.retry.max_attempts == 2


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"timout": 3}, "app.defaults\\(\\) has no 'timout': did you mean 'timeout'"),
        ({"timeout": "long"}, "app.defaults\\(\\): timeout must be a number"),
        ({"retry": 3}, "app.defaults\\(\\): retry must be a Retry"),
        ({"result_ttl": -1}, "app.defaults\\(\\): result_ttl must be at least 0"),
        ({"queue": "two words"}, "app.defaults\\(\\): queue"),
        ({"priority": 101}, "app.defaults\\(\\): priority must be from 0 to 100"),
        (
            {"timeout": None, "on_timeout": "dead"},
            "timeout=None is no limit, so on_timeout",
        ),
        ({"name": "send"}, "app.defaults\\(\\) has no 'name'"),
    ],
)
def test_defaults_that_cannot_be_are_refused(options: Any, what: str) -> None:
    app = Headrace("memory://")
    with pytest.raises(ConfigError, match=what):
        app.defaults(**options)

    @app.task
    async def plain() -> None: ...

    assert plain.declared.timeout == 300
