"""The arguments of a dead job as fields of a form, and back."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from headrace.admin.app import named, parameters_of
from headrace.web.rendering.values import as_json

if TYPE_CHECKING:
    from headrace.admin import DeadInfo
    from headrace.web.visit import Visit

PREFIX = "argument:"
# Longer values are not sent to the browser; a new value can be typed.
_MOST_TYPED = 100_000


@dataclass(frozen=True, slots=True)
class Field:
    """An argument. `text` is its value as JSON, empty if it cannot be edited; `typed` is what the
    user entered, `problem` what is wrong with it."""

    name: str
    kind: str
    """The annotation, as text."""
    text: str
    hint: str
    typed: str
    problem: str = ""

    @property
    def is_changed(self) -> bool:
        return _plain(self.typed) != _plain(self.text)


def fields_of(visit: Visit, job: DeadInfo) -> list[Field]:
    """A field for each parameter of the job's task, with the value if it may be shown in full;
    empty if this app has no such task. The argument that comes from other jobs has none."""
    lacks = job.lacks_first_argument
    parameters = list((parameters_of(visit.app, job.task) or {}).values())
    kept = _texts(named(visit.app, job.task, job.plain_arguments, lacks_first_argument=lacks))
    shown = _texts(named(visit.app, job.task, job.arguments, lacks_first_argument=lacks))
    return [_field(each, kept, shown) for each in parameters[1 if lacks else 0 :]]


def typed_into(fields: list[Field], form: Mapping[str, str]) -> list[Field]:
    """The fields with what the user typed."""
    return [replace(each, typed=form.get(PREFIX + each.name, each.text)) for each in fields]


def edit_of(fields: list[Field]) -> tuple[dict[str, Any], list[Field]]:
    """The new values of changed fields only, since others may be redacted; and all fields, with a
    `problem` where the input is not JSON."""
    edit: dict[str, Any] = {}
    checked: list[Field] = []
    for each in fields:
        problem = ""
        if each.is_changed:
            try:
                edit[each.name] = _parsed(each.typed)
            except (ValueError, RecursionError) as error:
                problem = f"This is not JSON: {error}. Texts need double quotes."
        checked.append(replace(each, problem=problem))
    return edit, checked


def _texts(values: Any) -> dict[str, str | None]:
    """Arguments by name as JSON; None where JSON cannot hold the value."""
    given: Mapping[str, Any] = values if isinstance(values, Mapping) else {}
    return {name: _text(each) for name, each in given.items()}


def _text(value: Any) -> str | None:
    try:
        return _written(value)
    except (TypeError, ValueError, RecursionError):
        return None


def _field(
    parameter: inspect.Parameter,
    kept: Mapping[str, str | None],
    shown: Mapping[str, str | None],
) -> Field:
    name = parameter.name
    kind = "" if parameter.annotation is parameter.empty else _annotation(parameter.annotation)
    text = shown.get(name)
    if name not in shown:
        hint = "Not given, or not shown. Leave it empty to keep it."
    elif text is None:
        hint = "It cannot be written as JSON. Leave it empty to keep it."
    elif text != kept.get(name):
        # The input replaces the whole value: redacted parts must not.
        hint = "Hidden, or hidden in part. Leave it empty to keep it."
    elif len(text) > _MOST_TYPED:
        hint = f"It is too long to edit ({len(text):,} characters). Leave it empty to keep it."
    else:
        return Field(name, kind, text, "", text)
    return Field(name, kind, "", hint, "")


def _annotation(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def _written(value: Any) -> str:
    """JSON that reads back as the same value; raises if there is none, as for keys that are not
    strings."""
    text = as_json(value)
    if json.loads(text) != (list(value) if isinstance(value, tuple) else value):
        raise ValueError("it would come back as another value")
    return text


def _parsed(text: str) -> Any:
    def refuse(name: str) -> Any:
        raise ValueError(f"{name} is not a number that JSON has")

    return json.loads(text, parse_constant=refuse)


def _plain(text: str) -> str:
    """Without the line ends that browsers add."""
    return text.replace("\r\n", "\n").strip()
