"""How a task process finds a task: by the module and the name of its function."""

from __future__ import annotations

import importlib
import runpy
from collections.abc import Sequence
from pathlib import PurePath
from types import SimpleNamespace
from typing import Any

from headrace.client.include.routed_task import RoutedTask
from headrace.client.task import Task
from headrace.errors import ConfigError

_tasks: dict[tuple[str, str], Task[..., Any]] = {}
"""The tasks that were found before, by the names of their functions."""


def find_task(module: str, qualname: str, included_by: Sequence[str] = ()) -> Task[..., Any]:
    """The task by the name of its function, with the app that includes it."""
    if known := _tasks.get((module, qualname)):
        return known
    found: Any = _imported(module)
    for name in qualname.split("."):
        found = getattr(found, name)
    if not isinstance(found, Task):
        raise TypeError(f"{module}.{qualname} is not a task")
    for includer in included_by:
        _imported(includer)
    if isinstance(found, RoutedTask) and not found.is_included:
        raise ConfigError(
            f"task {found.name!r} runs in a process of its own, which imports "
            f"{', '.join(included_by)}: call app.include(tasks) there at the top level, not in a "
            "function"
        )
    _tasks[module, qualname] = found
    return found


def _imported(module: str) -> Any:
    """A module, or a script, which is run once, under the name by which others would import it, so
    that its guarded part stays quiet."""
    if module.endswith(".py"):
        return _scripts.get(module) or _run_script(module)
    return importlib.import_module(module)


_scripts: dict[str, SimpleNamespace] = {}


def _run_script(path: str) -> SimpleNamespace:
    _scripts[path] = SimpleNamespace(**runpy.run_path(path, run_name=PurePath(path).stem))
    return _scripts[path]
