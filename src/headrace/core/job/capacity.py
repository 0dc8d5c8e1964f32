"""Where functions run, and how many more of each a worker can start."""

from __future__ import annotations

from typing import Literal

import msgspec

Runner = Literal["loop", "thread", "process"]
"""Where the function of a task runs: `run_in`, which is `loop` for async ones."""

RUNNERS: tuple[Runner, ...] = ("loop", "thread", "process")


class Capacity(msgspec.Struct, frozen=True):
    """How many jobs of each runner a worker can start now; none if it is less than zero."""

    loop: int
    thread: int
    process: int

    @property
    def total(self) -> int:
        return max(self.loop, 0) + max(self.thread, 0) + max(self.process, 0)

    def of(self, runner: Runner) -> int:
        return (
            self.loop if runner == "loop" else self.thread if runner == "thread" else self.process
        )
