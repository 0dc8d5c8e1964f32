"""Tasks that another process has to find."""

from __future__ import annotations

import sys
from typing import Any

from headrace.errors import ConfigError
from headrace.worker.app import WorkerApp


def check_process_tasks(app: WorkerApp) -> None:
    """Another process finds a task by the name of its function: check that it would."""
    for task in app.tasks.values():
        if task.declared.run_in != "process":
            continue
        found: Any = sys.modules.get(task.function.__module__)
        for name in task.function.__qualname__.split("."):
            found = getattr(found, name, None)
        if getattr(found, "function", None) is not task.function:
            raise ConfigError(
                f"task {task.name!r}: run_in='process' needs the task to be "
                f"{task.__module__}.{task.__qualname__}, so that another process finds it there"
            )
