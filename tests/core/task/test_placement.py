"""Which functions can run where."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from headrace.core.job.capacity import Runner
from headrace.core.task.placement import check_run_in
from headrace.errors import ConfigError


def plain() -> None: ...


async def awaited() -> None: ...


def generator() -> Iterator[int]:
    yield 1


async def async_generator() -> AsyncIterator[int]:
    yield 1


def local() -> Callable[[], None]:
    def inside() -> None: ...

    return inside


@pytest.mark.parametrize(
    ("run_in", "function", "said"),
    [
        ("thread", generator, "a generator cannot be a task"),
        ("loop", async_generator, "a generator cannot be a task"),
        ("loop", plain, "needs an async function"),
        ("thread", awaited, "runs in the loop"),
        ("process", awaited, "needs a plain function"),
        ("process", local(), "at the top level of a module"),
    ],
)
def test_a_function_that_cannot_run_there_is_refused(
    run_in: Runner, function: Callable[..., Any], said: str
) -> None:
    with pytest.raises(ConfigError, match=f"task 'x': .*{said}"):
        check_run_in("x", run_in, function)


def test_all_others_can() -> None:
    for run_in, function in (("loop", awaited), ("thread", local()), ("process", plain)):
        check_run_in("x", run_in, function)  # type: ignore[arg-type]
