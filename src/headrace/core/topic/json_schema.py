"""JSON Schemas of event types, as AsyncAPI wants them: in the words of draft 7, with the types that
have a name of their own among the document's components.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

import msgspec

from headrace.core.payload.kinds import named

JsonSchema = dict[str, Any]

_REF = "#/components/schemas/"
# Where names of the user's choosing stand, each with a schema.
_NAMED = ("properties", "patternProperties", "$defs")
_DATA = ("enum", "const", "default", "examples")


def schemas_of(kinds: Sequence[Any]) -> tuple[list[JsonSchema], dict[str, JsonSchema]]:
    """The schema of each type, and the components that they refer to. A type that cannot be
    described has a schema that allows anything and says why."""
    problems = [_problem_with(kind) for kind in kinds]
    models = _Models()
    schemas, components = msgspec.json.schema_components(
        [Any if problem else kind for kind, problem in zip(kinds, problems, strict=True)],
        schema_hook=models.schema,
        ref_template=f"{_REF}{{name}}",
    )
    found = {**components, **models.components}
    return (
        [
            {"$comment": problem} if problem else _as_draft_7(schema)
            for schema, problem in zip(schemas, problems, strict=True)
        ],
        {name: _as_draft_7(found[name]) for name in sorted(found)},
    )


def _problem_with(kind: Any) -> str:
    try:
        msgspec.json.schema_components([kind], schema_hook=_Models().schema)
    except (TypeError, ValueError) as error:
        # A default value of a class that msgspec does not know is enough.
        return f"{named(kind)} cannot be described: {error}"
    return ""


def component_name(text: str) -> str:
    """Text as it may stand among the components."""
    return re.sub(r"[^\w.-]+", "_", text, flags=re.ASCII) or "_"


class _Models:
    """What msgspec leaves to others: pydantic models and paths."""

    def __init__(self) -> None:
        self.components: dict[str, JsonSchema] = {}

    def schema(self, kind: type) -> JsonSchema:
        if hasattr(kind, "model_json_schema"):
            return self._of_model(kind)
        if issubclass(kind, PurePath):
            return {"type": "string", "format": "path"}
        # Only a codec of the user's own carries it, and only that knows its form.
        return {"title": kind.__name__}

    def _of_model(self, kind: Any) -> JsonSchema:
        schema: JsonSchema = {}
        for name in (kind.__name__, f"{kind.__module__}.{kind.__qualname__}"):
            prefix = component_name(name)
            schema = kind.model_json_schema(
                by_alias=False, ref_template=f"{_REF}{prefix}.{{model}}"
            )
            parts = {f"{prefix}.{key}": part for key, part in schema.pop("$defs", {}).items()}
            if all(self.components.get(key, part) == part for key, part in parts.items()):
                self.components |= parts
                break
        return schema


def _as_draft_7(schema: Any) -> Any:
    """The schema without the words that came later."""
    if isinstance(schema, list):
        return [_as_draft_7(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    older: JsonSchema = {}
    for word, value in schema.items():
        if word in _DATA:
            older[word] = value
        elif word in _NAMED:
            older[word] = {name: _as_draft_7(part) for name, part in value.items()}
        elif word != "discriminator":
            # In AsyncAPI a discriminator is something else; the tags of the types say the same.
            older[word] = _as_draft_7(value)
    if "prefixItems" in older:
        rest = older.pop("items", None)
        older["items"] = older.pop("prefixItems")
        if rest is not None:
            older["additionalItems"] = rest
    return older
