"""What a run in a process knows of where it is."""

from __future__ import annotations

from typing import Any, Protocol


class RunPlace(Protocol):
    """Where a run was sent, to begin there at a time that is not known here."""

    def look(self) -> None:
        """Start the clock of the run that has begun there, if it is not started."""
        ...


class ProcessRuns(Protocol):
    """Runs in processes that need no asyncio task."""

    def terminate(self, run: Any) -> object:
        """Have its function end at once, with its `finally` blocks."""
        ...

    def kill(self, run: Any) -> object:
        """Kill its process."""
        ...
