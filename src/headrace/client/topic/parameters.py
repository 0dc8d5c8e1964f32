"""Which parameter of a function is the event, and which are filled in beside it."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Any

from headrace.core.payload.kinds import kinds_of, named, without_none
from headrace.core.task.functions import checked_function
from headrace.errors import ConfigError

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_EMPTY = inspect.Parameter.empty
_EVENT = object()


class Parameters:
    """How to call a function with an event, or a list of them. Parameters annotated with one of the
    classes in `fillers` are filled with an instance of it."""

    def __init__(
        self,
        function: Callable[..., Any],
        where: str,
        fillers: tuple[type, ...],
        *,
        needs_event: bool = True,
        what: str = "event",
    ) -> None:
        self._where, self._what = where, what
        _check_function(function, where)
        hints = _hints(function, where)
        found = list(inspect.signature(function).parameters.values())
        kinds = {name: without_none(hint) for name, hint in hints.items()}
        self.fills = {kinds[p.name]: p.name for p in found if kinds.get(p.name, _EVENT) in fillers}
        """The classes that the function wants an instance of, each with its parameter's name."""
        self.can_be_none = {kind for kind, name in self.fills.items() if hints[name] is not kind}
        """Those of them that it can do without."""
        rest = [p for p in found if p.name not in self.fills.values()]
        self.event = self._event_of(rest, needs_event)
        self.event_type = hints.get(self.event, Any) if self.event is not None else None
        self._slots, self._named = self._placed(found)

    def arguments(
        self, event: Any, fillings: Mapping[type, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a call with this event and an instance of each of `fills`."""
        args = tuple(
            event if kind is _EVENT else given if kind is None else fillings[kind]
            for kind, given in self._slots
        )
        return args, {name: fillings[kind] for name, kind in self._named.items()}

    def check_event(self, event_type: Any, batched: bool) -> None:
        """Refuse a function whose annotation says that it takes something else."""
        wanted = self.event_type
        if batched:
            wanted = self._item_of(wanted)
        takes, comes = kinds_of(wanted), kinds_of(event_type)
        if wanted is Any or not takes or not comes:
            return
        if not all(any(issubclass(one, kind) for kind in takes) for one in comes):
            raise ConfigError(
                f"{self._where}its parameter {self.event!r} is annotated {named(wanted)}, but the "
                f"topic's events are of type {named(event_type)}"
            )

    def _item_of(self, kind: Any) -> Any:
        if kind is Any or kind is list:
            return Any
        if typing.get_origin(kind) is not list:
            raise ConfigError(
                f"{self._where}with batch= the function takes a list: annotate {self.event!r} as "
                f"list[…], not {named(kind)}"
            )
        return typing.get_args(kind)[0]

    def _event_of(self, rest: list[inspect.Parameter], needed: bool) -> str | None:
        wanted = [p for p in rest if p.kind in _POSITIONAL]
        first = wanted[0] if wanted else None
        extra = [
            p.name
            for p in rest
            if p is not first
            and p.default is _EMPTY
            and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
        ]
        if extra:
            raise ConfigError(f"{self._where}nothing can be given for its parameter {extra[0]!r}")
        if first is None or (not needed and first.default is not _EMPTY):
            if needed:
                said = f"it must take the {self._what} as its first parameter"
                raise ConfigError(f"{self._where}{said}")
            return None
        return first.name

    def _placed(
        self, found: list[inspect.Parameter]
    ) -> tuple[tuple[tuple[Any, Any], ...], dict[str, Any]]:
        """The arguments by position, up to the last that is filled, and by name."""
        by_name = {name: kind for kind, name in self.fills.items()}
        slots: list[tuple[Any, Any]] = []
        last = 0
        for parameter in (p for p in found if p.kind in _POSITIONAL):
            filled = _EVENT if parameter.name == self.event else by_name.pop(parameter.name, None)
            slots.append((filled, parameter.default))
            last = len(slots) if filled is not None else last
        return tuple(slots[:last]), by_name


def _check_function(function: Any, where: str) -> None:
    checked_function(f"{where}it", function, named=True)
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ConfigError(f"{where}a generator cannot handle events: its body would never run")


def _hints(function: Callable[..., Any], where: str) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function)
    except NameError as error:
        raise ConfigError(
            f"{where}an annotation cannot be resolved ({error}); its types must be importable "
            "where the function is defined, not only under TYPE_CHECKING"
        ) from None
