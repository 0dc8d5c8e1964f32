"""Which functions can be run as jobs."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from headrace.core.task.functions import checked_function
from headrace.errors import ConfigError


def work(number: int) -> int:
    return number


class Shop:
    def method(self, number: int) -> None: ...

    @classmethod
    def of_class(cls) -> None: ...

    @staticmethod
    def static(number: int) -> int:
        return number


class Declared:
    def enqueue(self) -> None: ...


def test_functions_and_bound_and_static_methods_can_be_run() -> None:
    assert checked_function("@task", work) is work
    bound = Shop().method
    assert checked_function("@task", bound) is bound
    static = Shop.__dict__["static"]
    assert checked_function("@task", static) is Shop.static
    named = lambda: None  # noqa: E731
    assert checked_function("@task", named, named=True) is named


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (Shop.method, r"on the method Shop\.method: a worker has no object to call it on"),
        (Shop.__dict__["of_class"], r"on the method Shop\.of_class: a worker has no object"),
        (lambda: None, "on a lambda, which has no name to find it by: write a def"),
        (Shop, "goes on a function, not on the class Shop; put it into a def"),
        (functools.partial(work, 1), r"not on a functools\.partial of work; put it into a def"),
        (5, "goes on a function, not on 5"),
        (Declared(), "which is a task already"),
    ],
)
def test_others_are_refused_with_what_to_write(function: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=f"^@task (is )?.*{said}"):
        checked_function("@task", function)
