"""What a scaling strategy decides from: the load of each source, and how many there are."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

from headrace.core.display import length_text
from headrace.core.scaling.scaling import Scaling


class Load(NamedTuple):
    """The load of some consumers, from one source. Other consumers, with `elsewhere` slots, share
    the source: each has a part of the load, in proportion to its slots."""

    backlog: float
    """Jobs or events that are waiting; neither scheduled nor blocked ones."""
    oldest_age: float | None
    """Seconds that the oldest has waited; None if nothing waits, or if that is unknown."""
    running: float
    """Jobs or events that they run."""
    active: int
    """Consumers that are alive; not how many there should be."""
    capacity_each: int
    """What one of them can hold at once."""
    elsewhere: int = 0
    """Slots of other consumers that share the source."""
    of: str = "jobs"
    """What is counted: "jobs" or "events"."""

    @property
    def capacity(self) -> int:
        return self.active * self.capacity_each

    def share(self) -> Load:
        """The part of it that is for these consumers."""
        ours = max(self.active, 1) * self.capacity_each
        part = ours / (ours + self.elsewhere)
        return self._replace(backlog=self.backlog * part, running=self.running * part, elsewhere=0)

    def __str__(self) -> str:
        # The two are read one after the other: the oldest may have been taken in between.
        age = ""
        if self.backlog and self.oldest_age is not None:
            age = f", the oldest for {length_text(self.oldest_age)}"
        return (
            f"{self.backlog:g} {self.of} wait{age}; {self.running:g} run; {self.active} consumers "
            f"x {self.capacity_each} = {self.capacity} slots"
            + (f", {self.elsewhere} elsewhere" if self.elsewhere else "")
        )


class ScalingSnapshot(NamedTuple):
    """One look at the consumers of one kind, and at what waits for them."""

    name: str
    """`worker processes`, or the subscription, such as `billing@orders`."""
    loads: tuple[Load, ...]
    """One for each source that they read; at least one."""
    target: int
    """How many there should be, as decided before."""
    now: datetime
    """By this machine's clock, in UTC."""
    scaling: Scaling
    """The least and the most that there may be, and the settings of the built-in strategy."""

    @property
    def active(self) -> int:
        """Consumers that are alive."""
        return self.loads[0].active

    @property
    def backlog(self) -> float:
        """All that is waiting for them: their share, if other workers read it too."""
        return sum(load.share().backlog for load in self.loads)

    @property
    def running(self) -> float:
        return sum(load.share().running for load in self.loads)

    @property
    def oldest_age(self) -> float:
        """Seconds that the oldest has waited; 0 if nothing waits."""
        return max(load.oldest_age or 0.0 for load in self.loads)


ScalingStrategy = Callable[[ScalingSnapshot], int]
"""How many consumers there should be. Called every few seconds: it should answer at once."""
