"""Finds a job by the beginning of its id, as people copy it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from headrace.core.display import plural
from headrace.core.job.state import FINAL
from headrace.errors import ConfigError, JobNotFound

if TYPE_CHECKING:
    from headrace.admin import Admin

T = TypeVar("T")

_LEAST = 8
_EXAMINED = 10_000
_STATES = (None, *FINAL)


async def by_beginning(admin: Admin, id: str, question: Callable[[str], Awaitable[T]]) -> T:
    """The answer about the job with this id, or with the only id that begins so, if it has eight
    characters or more."""
    try:
        return await question(id)
    except JobNotFound:
        found = await _beginning_with(admin, id) if len(id) >= _LEAST else set()
        if not found:
            raise
    if len(found) > 1:
        raise ConfigError(f"{plural(len(found), 'id')} begin with {id}: give more of it")
    return await question(found.pop())


async def _beginning_with(admin: Admin, text: str) -> set[str]:
    found: set[str] = set()
    for state in _STATES:
        page = await admin.jobs(None, state, search=text, arguments=False, scan=_EXAMINED)
        found |= {job.id for job in page.jobs if job.id.startswith(text)}
    return found
