"""The decorator of every method of the admin that changes something: it records the action."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from headrace.admin.actions import PendingAction
from headrace.admin.filters import EVER
from headrace.admin.jobs.cancel_request import CancelReport
from headrace.admin.redaction import Redaction
from headrace.client.job import Job
from headrace.core.display import plural

if TYPE_CHECKING:
    from headrace.admin.context import AdminContext

D = TypeVar("D", bound="AdminContext")
P = ParamSpec("P")
R = TypeVar("R")

Method = Callable[Concatenate[D, P], Awaitable[R]]
Recorded = Callable[Concatenate[D, P], Coroutine[Any, Any, R]]

# Conditions that may be texts of arguments.
_MAY_QUOTE = ("search", "error", "error_type", "tag")
# As `Masks.name` makes them.
_STANDS_FOR_ANOTHER = re.compile("#[0-9a-f]{10}")


def recorded(method: Method[D, P, R]) -> Recorded[D, P, R]:
    """The method as an action: with `by`, each call is recorded, with its arguments and its result
    or error."""
    signature = inspect.signature(method)

    @functools.wraps(method)
    async def called(self: D, /, *args: P.args, **kwargs: P.kwargs) -> R:
        recorder = self._recorder
        if recorder is None:
            return await method(self, *args, **kwargs)
        given = signature.bind(self, *args, **kwargs)
        given.apply_defaults()
        said = _said(given.arguments, await self._prepared_for_records())
        action = PendingAction(method.__name__, *said)
        acting = self._acting(action)
        async with recorder.recording(action, acting._action_log):
            result = await method(acting, *args, **kwargs)
            action.came_to(_outcome(result))
        return result

    return called


def _said(arguments: Mapping[str, Any], redaction: Redaction) -> tuple[str, str]:
    """The target of an action, and what else was said about it."""
    given = {name: value for name, value in arguments.items() if name != "self"}
    given |= given.pop("conditions", {})
    given = {name: value for name, value in given.items() if value not in (None, False, EVER)}
    said = {name: _text(name, value, redaction) for name, value in given.items()}
    if "group" in said:
        target = f"{said.pop('group')}@{said.pop('topic')}"
    else:
        first = next((name for name in ("ids", "id", "name", "queue") if name in said), "")
        target = said.pop(first, "all that match" if said else "all")
    return target, ", ".join(f"{name}={text}" for name, text in said.items())


def _text(name: str, value: Any, redaction: Redaction) -> str:
    if name == "ids" and not isinstance(value, str):
        count = len(value) if isinstance(value, Collection) else "several"
        return next(iter(value)) if count == 1 else f"{count} jobs"
    if name == "edit":
        # Only the names: values are not for the record.
        return "/".join(value) if isinstance(value, Mapping) else "a function"
    if name == "key":
        return value if _STANDS_FOR_ANOTHER.fullmatch(str(value)) else redaction.name(str(value))
    return redaction.said(str(value)) if name in _MAY_QUOTE else str(value)


def _outcome(result: object) -> str:
    if isinstance(result, CancelReport):
        counts = {"cancelled": result.cancelled, "running": result.running}
        counts |= {"ended": len(result.ended), "unknown": len(result.unknown)}
        return ", ".join(f"{count} {what}" for what, count in counts.items() if count) or "none"
    if isinstance(result, Job):
        return f"job {result.id}"
    if isinstance(result, bool):
        return "yes" if result else "no"
    # Those that return a number count jobs.
    return plural(result, "job") if isinstance(result, int) else ""
