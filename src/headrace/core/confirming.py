"""What must be certain of a job or an event before its send returns."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntFlag
from typing import Literal

from headrace.errors import ConfigError

Confirm = Literal["replicated", "disk"]
"""As callers say it, for one send."""


class Confirming(IntFlag):
    """What the sends of one batch ask for together, beside what the app always asks for."""

    REPLICATED = 1
    DISK = 2


UNCONFIRMED = Confirming(0)
_NAMES = {"replicated": Confirming.REPLICATED, "disk": Confirming.DISK}


def read_confirm(what: str, given: object) -> Confirming:
    """The value of a `confirm=`; None for nothing."""
    if given is None:
        return UNCONFIRMED
    found = _NAMES.get(given) if isinstance(given, str) else None
    if found is None:
        raise ConfigError(f"{what} must be 'replicated' or 'disk', not {given!r}")
    return found


def all_of(asked: Iterable[Confirming]) -> Confirming:
    """What sends that go together ask for."""
    together = UNCONFIRMED
    for each in asked:
        together |= each
    return together
