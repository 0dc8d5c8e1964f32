"""What is set up in a task process, for the whole of its life."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from headrace.client.app import ClientApp


class ProcessStates:
    """What the `process_lifespan` of each app yielded in this process."""

    def __init__(self) -> None:
        self._entered: dict[ClientApp, Any] = {}
        self._stack = ExitStack()

    def of(self, app: ClientApp, begins: Callable[[], object]) -> Any:
        """The state of an app, which is set up now if it is not yet; None if it needs none.
        `begins` is called right before a set-up."""
        lifespan = app.process_lifespan_declared
        if lifespan is None:
            return None
        if app not in self._entered:
            begins()
            self._entered[app] = self._stack.enter_context(lifespan.around(app))
        return self._entered[app]

    def close(self) -> None:
        """Clean up, last set up first."""
        self._stack.close()
