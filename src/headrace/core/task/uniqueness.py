"""`unique`, `unique_for` and `debounce`: which jobs of a task are one, and for how long."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from headrace.core.bounds import check_label
from headrace.core.clock import to_ms
from headrace.errors import ConfigError

LabelMaker = Callable[..., str]
"""Makes a text of a call's arguments."""
# Names are stored with each job: a longer one is stored as its digest.
_MAX_NAME_BYTES = 128


class Uniqueness(msgspec.Struct, frozen=True):
    """What a task declares, or what one call says; None where a call leaves it to its task."""

    by: bool | str | LabelMaker | None = None
    """What jobs must share to be one: their arguments (True), or a text."""
    for_ms: int | None = None
    debounce_ms: int | None = None

    @classmethod
    def declared(cls, where: str, options: Mapping[str, Any]) -> Uniqueness:
        """What the options of `@app.task(...)` say, checked; errors begin with `where`."""
        unique = options.get("unique", False)
        if not isinstance(unique, bool) and not callable(unique):
            raise ConfigError(
                f"{where}unique must be True, False or a function of the arguments that returns a "
                f"text, not {unique!r}"
            )
        for_ms = to_ms(f"{where}unique_for", options.get("unique_for", 0))
        made = cls(unique, for_ms, to_ms(f"{where}debounce", options.get("debounce", 0)))
        made._check_one_wait(where)
        if for_ms and not unique:
            raise ConfigError(f"{where}unique_for needs unique=")
        return made

    def changed(self, options: Mapping[str, Any]) -> Uniqueness:
        """With those that `task.options(...)` sets, checked."""
        new: dict[str, Any] = {}
        if "unique" in options:
            text = options["unique"]
            new["by"] = text if isinstance(text, bool) else check_label("options(unique=)", text)
        if "unique_for" in options:
            new["for_ms"] = to_ms("options(unique_for=)", options["unique_for"])
        if "debounce" in options:
            new["debounce_ms"] = to_ms("options(debounce=)", options["debounce"])
        return msgspec.structs.replace(self, **new) if new else self

    def over(self, declared: Uniqueness) -> Uniqueness:
        """The settings of this call, with the task's where it sets none."""
        for_ms = declared.for_ms if self.for_ms is None else self.for_ms
        debounce_ms = declared.debounce_ms if self.debounce_ms is None else self.debounce_ms
        by = declared.by or bool(debounce_ms) if self.by is None else self.by
        return Uniqueness(by, for_ms, debounce_ms)

    def check_call(self, where: str, declared: Uniqueness) -> None:
        """Refuse what would do nothing in a call of a task that declares the other."""
        whole = self.over(declared)
        if self.for_ms and not whole.by:
            raise ConfigError(f"{where}unique_for=) needs unique=")
        if self.debounce_ms and not whole.by:
            raise ConfigError(f"{where}debounce=) contradicts unique=False")
        whole._check_one_wait(f"{where}): ")

    def _check_one_wait(self, where: str) -> None:
        if self.for_ms and self.debounce_ms:
            raise ConfigError(f"{where}unique_for and debounce contradict each other: give one")


AS_DECLARED = Uniqueness()
"""For a call that leaves all of it to its task's declaration."""
NOT_UNIQUE = Uniqueness(by=False, for_ms=0, debounce_ms=0)


def unique_name(task: str, text: str) -> str:
    """The name under which jobs of a task with this text are one."""
    name = f"{task}:{text}"
    return name if len(name.encode()) <= _MAX_NAME_BYTES else digest(task, text.encode())


def digest(task: str, data: bytes) -> str:
    """A short name for what a task is called with."""
    from hashlib import blake2b

    return blake2b(task.encode() + b"\0" + data, digest_size=16).hexdigest()
