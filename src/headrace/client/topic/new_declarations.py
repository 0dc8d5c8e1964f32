"""Tells workers of subscriptions that are declared while they run."""

from __future__ import annotations

from collections.abc import Callable


class NewDeclarations:
    """Calls its listeners when an app declares one more topic or subscription."""

    def __init__(self) -> None:
        self._listeners: tuple[Callable[[], None], ...] = ()

    def listen(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Have `listener` called, in the thread that declares; returns what ends that."""
        self._listeners = (*self._listeners, listener)

        def close() -> None:
            # Compared by identity: a method is made anew each time it is asked for.
            self._listeners = tuple(one for one in self._listeners if one is not listener)

        return close

    def changed(self) -> None:
        for listener in self._listeners:
            listener()
