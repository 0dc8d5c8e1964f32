"""What is called with the events of a group that went dead."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, get_args

from headrace.client.topic.parameters import Parameters
from headrace.core.topic.event import Event
from headrace.errors import EventError


@dataclass(frozen=True, slots=True)
class DeadEvent:
    """An event that its group gave up. `reason` is one of `Reason`; `raw` is the whole entry, as it
    was in the log, whether it could be read or not."""

    id: str
    """The id of the event."""
    group: str
    """The group that gave it up."""
    reason: str
    """Why; one of `Reason`."""
    error: str
    """The text of the last error."""
    attempts: int
    """How often it was tried."""
    died_at: datetime
    """By the store's clock."""
    raw: bytes = field(repr=False)
    """The whole entry, as it was in the log, whether it could be read or not."""
    event: Event[Any] = field(repr=False)
    """Its metadata; its `data` raises `EventError` if it could not be read."""


class DeadHandler:
    """A function for dead events, as `@topic.on_dead(...)` declares it."""

    def __init__(self, function: Callable[..., Any], where: str, event_type: Any) -> None:
        self.function = function
        self.is_async = inspect.iscoroutinefunction(function)
        self._parameters = Parameters(function, where, (DeadEvent,), needs_event=False)
        if self._parameters.event is not None:
            self._parameters.check_event(event_type, batched=False)

    def arguments(self, dead: DeadEvent) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """Arguments for the handler; None if it needs the event and the event is unreadable. It
        does not if it takes None in its place, or only the `DeadEvent`."""
        event: Any = None
        if self._parameters.event is not None:
            try:
                event = dead.event.data
            except EventError:
                if not self._takes_none:
                    return None
        return self._parameters.arguments(event, {DeadEvent: dead})

    @property
    def _takes_none(self) -> bool:
        return types.NoneType in get_args(self._parameters.event_type)
