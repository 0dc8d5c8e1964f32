"""Warnings of queues and tasks that are probably misspelt."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from headrace.cli.app_command import asked
from headrace.cli.output import complain
from headrace.core.display import meant
from headrace.core.job.state import FINAL
from headrace.core.queue_names import is_log

if TYPE_CHECKING:
    from headrace import Headrace
    from headrace.admin import Admin

_STATES = (None, *FINAL)
_EXAMINED = 1_000
_DAY = 24 * 60


def warn_of_unknown(app: Headrace, queue: str | None, task: str | None = None) -> None:
    """Warn that nobody has declared a queue or a task, and nothing was ever sent to it, as far as
    the store knows. Give a task only if no job of it was found."""
    for what, name, known in (("queue", queue, _queues_unlike), ("task", task, _tasks_unlike)):
        names = None if name is None else asked(app, partial(known, name=name))
        if name is not None and names is not None:
            complain(f"warning: no {what} {name!r} is known{meant(name, names)}")


async def _queues_unlike(app: Headrace, name: str) -> list[str] | None:
    return await app.admin.names_like(name)


async def _tasks_unlike(app: Headrace, name: str) -> list[str] | None:
    """None if there is a task of this name; otherwise those that there are."""
    # orders/billing stands for the events of a group.
    if name in app.tasks or is_log(name) or "/" in name:
        return None
    names = sorted({*app.tasks, *(each.task for each in await app.admin.stats(_DAY))})
    return None if name in names or await _has_jobs(app.admin, name) else names


async def _has_jobs(admin: Admin, task: str) -> bool:
    for state in _STATES:
        if (await admin.jobs(None, state, task=task, limit=1, scan=_EXAMINED)).jobs:
            return True
    return False
