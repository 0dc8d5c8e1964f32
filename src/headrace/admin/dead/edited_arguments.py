"""The arguments of a dead job, with an edit."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from headrace.admin.app import caller_parameters, in_order
from headrace.core import codec
from headrace.core.misfit import Misfit
from headrace.core.task.argument_labels import GivenArguments
from headrace.core.task.argument_names import with_new_names
from headrace.core.task.further_arguments import (
    FURTHER,
    as_map,
    bound_without_gaps,
    by_parameter,
)
from headrace.core.task.signature import Signature
from headrace.errors import ArgumentError, ConfigError

if TYPE_CHECKING:
    from headrace.client.task import Task

Edit = Mapping[str, Any] | Callable[[dict[str, Any]], Mapping[str, Any]]
"""New values by the names of their arguments, or a function from all arguments, as plain values by
name, to all arguments."""

OnEdit = Callable[[str, Mapping[str, Any], Mapping[str, Any]], None]
"""Called with the task, and the old and new arguments of one of its jobs, by name."""

_NIL = b"\xc0"


class EditedArguments:
    """The arguments of one dead job, by the parameters that its task has now. Of one that `is_fed`,
    the first comes from the jobs before it, and stays as it is."""

    def __init__(self, id: str, task: Task[..., Any], *, is_fed: bool) -> None:
        self._id = id
        self._task = task
        self._is_fed = is_fed
        self._fed = None
        parameters = list(caller_parameters(task).values())
        if is_fed and parameters[:1] and parameters[0].kind is not inspect.Parameter.VAR_POSITIONAL:
            self._fed = parameters.pop(0).name
        self._python = inspect.Signature(parameters)
        kinds = {p.kind: p.name for p in parameters}
        self._rest = kinds.get(inspect.Parameter.VAR_KEYWORD)

    def edited(
        self,
        payload: bytes,
        decode: Callable[[bytes], Any],
        edit: Edit,
        on_edit: OnEdit | None = None,
    ) -> bytes:
        """The arguments with the edit, encoded; `ArgumentError` if they do not fit the task."""
        named, unknown = self._named(payload, decode)
        changed = self._changed(named, unknown, edit)
        if on_edit is not None:
            on_edit(self._task.name, {**unknown, **named}, changed)
        checked = {name: self._checked(name, value) for name, value in changed.items()}
        try:
            return self._encoded(bound_without_gaps(self._python, checked))
        except ArgumentError as error:
            prefix = f"task {self._task.name!r}: "
            raise self._misfit(str(error).removeprefix(prefix), error.argument) from None
        except Misfit as error:
            raise self._misfit(str(error)) from None

    def ways(
        self, signature: Signature, payload: bytes, plain: Mapping[str, Any]
    ) -> list[GivenArguments]:
        """The arguments in each way in which their sender may have given them: as the function gets
        them, and as they are, by position and by name. Without those in which they do not fit."""
        taken = {name: value for name, value in plain.items() if name in self._python.parameters}
        bound = bound_without_gaps(self._python, taken)
        ways: list[GivenArguments] = [(bound.args, bound.kwargs), ((), as_map(bound))]
        try:
            if not self._is_fed:
                return [signature.decode(payload), *ways]
            args, kwargs = signature.with_any_first().decode_with_first(payload, _NIL)
            return [(args[1:], kwargs), *ways]
        except (Misfit, *codec.DECODE_ERRORS):
            return ways

    def _encoded(self, bound: inspect.BoundArguments) -> bytes:
        signature = self._task.signature
        if not self._is_fed:
            new = signature.encode(bound.args, bound.kwargs)
            signature.decode(new)
            return new
        after_first = signature.encode_call(bound.args, bound.kwargs)[1]
        if after_first is None:
            raise Misfit(f"it takes {self._takes} behind {self._fed!r}")
        signature.with_any_first().decode_with_first(after_first, _NIL)
        return after_first

    def _named(
        self, payload: bytes, decode: Callable[[bytes], Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """The arguments as plain values by name, and those that the task does not take."""
        try:
            values = decode(payload)
            if not isinstance(values, dict):
                values = in_order(self._python, list(values))
            renamed = self._task.declared.renamed_arguments
            return by_parameter(self._python, with_new_names(values, renamed))
        except (Misfit, *codec.DECODE_ERRORS):
            raise self._misfit(f"its arguments do not fit {self._takes} any more") from None

    def _changed(
        self, arguments: dict[str, Any], unknown: dict[str, Any], edit: Edit
    ) -> dict[str, Any]:
        given: Mapping[str, Any] = {**unknown, **arguments}
        if isinstance(edit, Mapping):
            given = {**given, **edit}
        else:
            given = edit(dict(given))
            if not isinstance(given, Mapping):
                raise ConfigError(f"job {self._id}: edit must return a mapping, not {given!r}")
        if self._fed in given:
            raise ConfigError(
                f"job {self._id} cannot be edited: its first argument comes from the jobs before it"
            )
        if self._task.declared.unknown_arguments == "ignore":
            left = {n for n in unknown if n in given and given[n] is unknown[n]}
            given = {name: value for name, value in given.items() if name not in left}
        return self._by_parameter(given)

    def _by_parameter(self, given: Mapping[str, Any]) -> dict[str, Any]:
        changed = {name: value for name, value in given.items() if name in self._python.parameters}
        extra = {name: value for name, value in given.items() if name not in changed}
        if extra and self._rest is None:
            name = next(iter(extra))
            if name == FURTHER:
                raise self._misfit(f"its arguments do not fit {self._takes} any more")
            raise self._misfit(
                f"there is no argument {name!r}: it takes {self._takes}; an edit that is a "
                "function can leave it out, as can unknown_arguments='ignore' on the task",
                name,
            )
        if extra and self._rest is not None:
            more = self._checked(self._rest, changed.get(self._rest, {}))
            changed[self._rest] = {**more, **extra}
        return changed

    def _checked(self, name: str, value: Any) -> Any:
        """The value; `*args` must be a list, `**kwargs` a mapping."""
        kind = self._python.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL and not isinstance(value, (list, tuple)):
            raise self._misfit(f"'*{name}' takes a list of values, not {value!r}", name)
        if kind is inspect.Parameter.VAR_KEYWORD and not _is_named(value):
            raise self._misfit(
                f"'**{name}' takes a mapping from names to values, not {value!r}", name
            )
        return value

    @property
    def _takes(self) -> str:
        return f"{self._task.name}{self._python}"

    def _misfit(self, problem: str, argument: str | None = None) -> ArgumentError:
        return ArgumentError(self._task.name, f"job {self._id}: {problem}", argument)


def _is_named(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(name, str) for name in value)
