"""`batch_key` and `grace`: which jobs of a batch task gather in the store, and until when."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from headrace.core.clock import to_ms
from headrace.core.job.constraints import MAX_GATHERED, Gathering, batch_gate
from headrace.core.task.uniqueness import LabelMaker
from headrace.errors import ConfigError

_GRACES = 10
"""How long the first job waits for others, if nobody says: as many times the grace."""


class TaskGathering(msgspec.Struct, frozen=True):
    """What a task declares."""

    key: LabelMaker | str | None
    """Jobs gather with those of the same key. A text names the item, or a field of it."""
    grace_ms: int = 0

    @classmethod
    def declared(cls, where: str, options: Mapping[str, Any]) -> TaskGathering | None:
        """Of the options of `@app.task(...)`, checked; None if its batches do not gather. Errors
        begin with `where`."""
        key, grace = options.get("batch_key"), options.get("grace")
        if key is None and grace is None:
            return None
        if options.get("batch") is None:
            raise ConfigError(f"{where}{'batch_key' if key is not None else 'grace'} needs batch=")
        if key is not None and not callable(key) and not (isinstance(key, str) and key):
            raise ConfigError(
                f"{where}batch_key must be a function of the item that returns a text, or the name "
                f"of a field of the item, not {key!r}"
            )
        for other in ("concurrency", "key_concurrency", "rate"):
            if options.get(other) is not None:
                raise ConfigError(
                    f"{where}{other} does not go with batch_key or grace: it counts single jobs, "
                    "and these run as one"
                )
        return cls(key, 0 if grace is None else to_ms(f"{where}grace", grace, least=0.001))

    def max_wait(self, where: str, options: Mapping[str, Any], otherwise: float) -> Any:
        """How long the first job waits: as declared, or by the grace, or `otherwise`."""
        waits = options.get("max_wait")
        if waits is None:
            return self.grace_ms * _GRACES / 1000 if self.grace_ms else otherwise
        if self.grace_ms and to_ms(f"{where}max_wait", waits) <= self.grace_ms:
            raise ConfigError(
                f"{where}a grace of {self.grace_ms / 1000:g} s never ends before max_wait: make "
                "max_wait longer, or leave grace out"
            )
        return waits

    def check_size(self, where: str, batch: int) -> None:
        if batch > MAX_GATHERED:
            raise ConfigError(
                f"{where}batch must be at most {MAX_GATHERED:,} with batch_key or grace, not "
                f"{batch:,}"
            )

    def of_job(self, task: str, key: str, batch: int, max_wait: float) -> Gathering:
        """The batch in which a job with this key gathers."""
        return Gathering(batch_gate(task, key), batch, round(max_wait * 1000), self.grace_ms)


def key_maker(where: str, key: LabelMaker | str, parameter: str, item: Any) -> LabelMaker:
    """Makes the key of an item. A text may be the name of the function's `parameter`, for the item
    itself, or of a field of an `item` of this type."""
    if not isinstance(key, str):
        return key

    def item_of(*items: Any, **named: Any) -> Any:
        return items[0] if items else named[parameter]

    if key == parameter:
        return lambda *items, **named: _text(item_of(*items, **named))
    # On Python 3.11, Any is a class.
    is_known = isinstance(item, type) and item is not Any and not issubclass(item, Mapping)
    if is_known and not hasattr(item, key) and key not in _fields_of(item):
        raise ConfigError(
            f"{where}batch_key: {item.__name__} has no {key!r}; give a field of it, {parameter!r} "
            "for the item itself, or a function of the item"
        )

    def key_of(*items: Any, **named: Any) -> Any:
        found = item_of(*items, **named)
        return _text(found[key] if isinstance(found, Mapping) else getattr(found, key))

    return key_of


def _fields_of(kind: type) -> set[str]:
    return {name for each in kind.__mro__ for name in getattr(each, "__annotations__", ())}


def _text(value: object) -> Any:
    """Numbers are keys too."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value
