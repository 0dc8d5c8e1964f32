"""What may set a task process up."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from headrace.core.task.process_lifespan import START_TIMEOUT, process_lifespan_of
from headrace.errors import ConfigError


def plain() -> Iterator[str]:
    yield "state"


def with_app(app: list[str]) -> Iterator[list[str]]:
    yield app
    app.append("cleaned up")


async def asynchronous() -> AsyncIterator[None]:
    yield


def test_a_generator_is_entered_and_left() -> None:
    app: list[str] = []
    with process_lifespan_of(plain, START_TIMEOUT, None).around(app) as state:
        assert state == "state"
    with process_lifespan_of(with_app, START_TIMEOUT, None).around(app) as state:
        assert state is app
        assert not app
    assert app == ["cleaned up"]


@pytest.mark.parametrize(
    ("function", "timeout", "said"),
    [
        (asynchronous, 60, "plain generator function, not on an async one"),
        (dict, 60, "one that yields"),
        (plain, -1, "process_lifespan: timeout must be at least 0"),
        (plain, 0, "process_lifespan: timeout must be at least 0.001"),
    ],
)
def test_what_cannot_be_one_is_refused(function: Any, timeout: float, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        process_lifespan_of(function, timeout, None)


def test_an_app_has_one() -> None:
    known = process_lifespan_of(plain, START_TIMEOUT, None)
    with pytest.raises(ConfigError, match="has a process_lifespan already"):
        process_lifespan_of(with_app, START_TIMEOUT, known)
