"""How many jobs of a flow are in each state, and what that says of the flow."""

from __future__ import annotations

import pytest

from headrace.core.flow.counts import FlowCounts, count_states
from headrace.core.job.state import State


@pytest.mark.parametrize(
    ("counts", "state"),
    [
        (FlowCounts(running=1, dead=1), State.RUNNING),
        (FlowCounts(waiting=1, blocked=3), State.WAITING),
        (FlowCounts(scheduled=1, done=3), State.SCHEDULED),
        (FlowCounts(blocked=1, cancelled=3), State.BLOCKED),
        (FlowCounts(done=9, dead=1, cancelled=1), State.DEAD),
        (FlowCounts(done=9, cancelled=1), State.CANCELLED),
        (FlowCounts(done=9), State.DONE),
    ],
)
def test_a_flow_is_in_the_furthest_state_of_what_has_not_ended(
    counts: FlowCounts, state: State
) -> None:
    assert counts.state is state


def test_counts_add_up() -> None:
    both = FlowCounts(waiting=1, done=2) + FlowCounts(running=1, done=4)
    assert both == FlowCounts(waiting=1, running=1, done=6)
    assert (both.total, both.live, both.fraction) == (8, 2, 0.75)
    assert FlowCounts().fraction == 0.0


def test_states_are_counted() -> None:
    states = [State.DONE, State.DEAD, State.DONE, State.RUNNING]
    assert count_states(states) == FlowCounts(done=2, dead=1, running=1)
