"""Dividing by weight: whole parts now, the right proportion in the long run."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.core.shares import shares, still_behind, turns


def test_parts_are_in_proportion_and_of_equals_the_earlier_gets_more() -> None:
    assert shares(12, [3, 2, 1], [0, 0, 0]) == [6, 4, 2]
    assert shares(10, [1, 1, 1], [0, 0, 0]) == [4, 3, 3]


def test_what_was_behind_gets_more() -> None:
    assert shares(1, [1, 1], [0, 0.5]) == [0, 1]
    assert shares(4, [1, 1], [1, 1]) == [2, 2]


@given(
    st.integers(0, 500),
    st.lists(st.tuples(st.integers(1, 100), st.floats(-1, 1)), min_size=1, max_size=12),
)
def test_the_parts_are_the_whole(total: int, each: list[tuple[int, float]]) -> None:
    parts = shares(total, [weight for weight, _ in each], [behind for _, behind in each])
    assert sum(parts) == total
    assert min(parts) >= 0


def test_small_parts_add_up() -> None:
    """One at a time, as a worker with a single slot reads."""
    weights, behind, got = [3, 1], [0.0, 0.0], [0, 0]
    for _ in range(400):
        parts = shares(1, weights, behind)
        for at, part in enumerate(parts):
            got[at] += part
            behind[at] = still_behind(behind[at], weights[at] / 4, part)
    assert got == [300, 100]


def test_who_had_nothing_for_long_is_behind_by_one_at_most() -> None:
    assert still_behind(0.9, 5.0, 0) == 1.0
    assert still_behind(-0.9, 0.0, 5) == -1.0


def test_turns_share_any_beginning_by_weight() -> None:
    queues = ["reports"] * 10 + ["mail"] * 30
    when = turns(queues, {"mail": 3, "reports": 1})
    order = [queue for _, queue in sorted(zip(when, queues, strict=True))]
    for count in range(1, 41):
        assert abs(order[:count].count("mail") - count * 3 / 4) < 1


def test_turns_keep_the_order_within_a_queue() -> None:
    assert turns(["b", "a", "b", "a", "b"], {"a": 1, "b": 2}) == [0.5, 1.0, 1.0, 2.0, 1.5]
