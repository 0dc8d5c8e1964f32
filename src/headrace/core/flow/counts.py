"""How many jobs of a flow are in each state."""

from __future__ import annotations

import msgspec

from headrace.core.job.state import State

_FURTHEST = (State.RUNNING, State.WAITING, State.SCHEDULED, State.BLOCKED)


class FlowCounts(msgspec.Struct, frozen=True):
    """How many jobs of a flow are in each state."""

    waiting: int = 0
    """For a worker."""
    scheduled: int = 0
    """For later."""
    blocked: int = 0
    """Behind others of the flow, a key or a limit."""
    running: int = 0
    """In a worker."""
    done: int = 0
    """Ended with a result."""
    dead: int = 0
    """Given up."""
    cancelled: int = 0
    """Ended by someone."""

    @property
    def total(self) -> int:
        """How many there are."""
        return self.live + self.done + self.dead + self.cancelled

    @property
    def live(self) -> int:
        """How many have not ended."""
        return self.waiting + self.scheduled + self.blocked + self.running

    @property
    def fraction(self) -> float:
        """The part of all jobs that is done."""
        return self.done / self.total if self.total else 0.0

    @property
    def state(self) -> State:
        """The furthest state of the jobs that have not ended; if all have, that of the flow."""
        for state in _FURTHEST:
            if getattr(self, state.value):
                return state
        if self.dead:
            return State.DEAD
        return State.CANCELLED if self.cancelled else State.DONE

    def __add__(self, other: FlowCounts) -> FlowCounts:
        pairs = zip(msgspec.structs.astuple(self), msgspec.structs.astuple(other), strict=True)
        return FlowCounts(*(one + two for one, two in pairs))


def count_states(states: list[State]) -> FlowCounts:
    """The number of each of these states."""
    return FlowCounts(**{state.value: states.count(state) for state in set(states)})
