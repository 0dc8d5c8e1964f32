"""Which functions can run where."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from headrace.core.job.capacity import Runner
from headrace.errors import ConfigError


def check_run_in(name: str, run_in: Runner, function: Callable[..., Any]) -> None:
    """Refuse a function that cannot run there, for the task of this name."""
    where, is_async = f"task {name!r}: ", inspect.iscoroutinefunction(function)
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ConfigError(f"{where}a generator cannot be a task: its jobs would do nothing")
    if run_in == "loop" and not is_async:
        raise ConfigError(
            f"{where}run_in='loop' needs an async function; use 'thread' or 'process'"
        )
    if run_in == "thread" and is_async:
        raise ConfigError(f"{where}an async function runs in the loop; leave run_in out")
    if run_in == "process" and is_async:
        raise ConfigError(f"{where}run_in='process' needs a plain function, not an async one")
    if run_in == "process" and "<locals>" in getattr(function, "__qualname__", name):
        raise ConfigError(
            f"{where}run_in='process' needs a function at the top level of a module, so that "
            "another process can import it"
        )
