"""How an app takes the declarations of a `Tasks`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.client.include.declaring import TaskDeclarations
from headrace.client.include.tasks import Entry, RoutedTaskEntry
from headrace.client.task import Task
from headrace.core.schedule.definition import Definition


def take_all(
    app: TaskDeclarations,
    entries: Sequence[Entry],
    tasks: dict[str, Task[..., Any]],
    schedules: dict[str, Definition],
) -> None:
    """Declare all of it on the app, whose `tasks` and `schedules` these are; or nothing."""
    known = set(tasks), set(schedules)
    taken = [each.task for each in entries if isinstance(each, RoutedTaskEntry)]
    before = [dict(vars(task)) for task in taken]
    try:
        for entry in entries:
            _take(app, entry)
    except BaseException:
        _keep(tasks, known[0])
        _keep(schedules, known[1])
        for task, state in zip(taken, before, strict=True):
            vars(task).update(state)
        raise
    for task in taken:
        task.settle_options()


def _keep(declared: dict[str, Any], names: set[str]) -> None:
    for name in declared.keys() - names:
        del declared[name]


def _take(app: TaskDeclarations, entry: Entry) -> None:
    if isinstance(entry, RoutedTaskEntry):
        made = app.make_task(entry.task.function, {**entry.options, "name": entry.name})
        entry.task.adopt(made, entry.modules)
        app.register(entry.task)
    else:
        app.prepare_schedule(entry.task, entry.name, entry.arguments, entry.times)()
