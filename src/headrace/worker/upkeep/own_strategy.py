"""The scaling strategy of an app, asked so that no answer of it can do harm."""

from __future__ import annotations

import logging

from headrace.core.scaling.snapshot import ScalingSnapshot, ScalingStrategy

log = logging.getLogger("headrace.worker")


class OwnStrategy:
    """Asks the app's function. Gives None if it fails, and logs that once until it answers again or
    fails otherwise."""

    def __init__(self, function: ScalingStrategy) -> None:
        self._function = function
        self._trouble = ""

    @classmethod
    def of(cls, function: ScalingStrategy | None) -> OwnStrategy | None:
        return None if function is None else cls(function)

    def __call__(self, snapshot: ScalingSnapshot) -> int | None:
        try:
            wanted = _checked(self._function(snapshot))
        except Exception as error:
            self._failed(snapshot.name, error)
            return None
        self._trouble = ""
        return wanted

    def _failed(self, name: str, error: Exception) -> None:
        if self._trouble != repr(error):
            log.error(
                "the scaling strategy failed; the number of %s stays as it is: %r",
                *(name, error),
                exc_info=error,
                extra={"scaled": name},
            )
        self._trouble = repr(error)


def _checked(wanted: object) -> int:
    if isinstance(wanted, bool) or not isinstance(wanted, int):
        raise TypeError(f"a scaling strategy returns a whole number, not {wanted!r}")
    return wanted
