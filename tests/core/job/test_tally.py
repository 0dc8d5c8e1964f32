"""What many runs come to."""

from __future__ import annotations

from headrace.core.job.delivery import LeasedDelivery
from headrace.core.job.outcome import DONE, RELEASED, Dead, Outcome, Retried
from headrace.core.job.tally import BUCKETS_US, Tally
from headrace.store.contract import Settlement

FIRST, SECOND, THIRD = BUCKETS_US[:3]
READY_MS = 1_000_000


def settled(
    outcome: Outcome = DONE, *, task: str = "add", took_us: int = 1, waited_ms: int = 0
) -> Settlement:
    delivery = LeasedDelivery("default", 0, b"")
    delivery.task, delivery.took_us = task, took_us
    delivery.started_ms = READY_MS + waited_ms if took_us else 0
    delivery.ready_ms = READY_MS
    return Settlement(delivery, outcome)


def counted(*many: Settlement) -> dict[tuple[str, str], int]:
    return Tally.of(many, lambda delivery: delivery.ready_ms).counts


def test_outcomes_are_counted_by_kind_and_task() -> None:
    counts = counted(
        settled(),
        settled(),
        settled(Retried(5, b"")),
        settled(Retried(5, b"", deferred=True)),
        settled(Retried(6, b"", deferred=True)),
        settled(Dead("boom", b""), task="mail"),
    )
    assert counts["done", "add"] == 2
    assert counts["retry", "add"] == 1
    assert counts["deferred", "add"] == 2
    assert counts["dead", "mail"] == 1
    assert ("done", "mail") not in counts


def test_runs_are_counted_by_the_bucket_they_fall_into_and_summed() -> None:
    longest = 3 * BUCKETS_US[-1]
    counts = counted(*(settled(took_us=took) for took in (1, FIRST, FIRST + 1, longest)))
    assert counts[f"<{FIRST}", "add"] == 2
    assert counts[f"<{SECOND}", "add"] == 1
    assert counts[f"<{BUCKETS_US[-1]}", "add"] == 1
    assert counts["run_us", "add"] == 2 * FIRST + 2 + longest


def test_waits_reach_from_coming_in_line_to_the_start() -> None:
    counts = counted(settled(waited_ms=1), settled(waited_ms=3), settled(waited_ms=4))
    assert counts[f"~{FIRST}", "add"] == 1
    assert counts[f"~{THIRD}", "add"] == 2
    assert counts["wait_us", "add"] == 8000


def test_the_wait_of_a_run_whose_start_is_recorded_already_counts() -> None:
    long = settled(waited_ms=3)
    long.delivery.mark_start_recorded()
    assert counted(long)["wait_us", "add"] == 3000


def test_what_did_not_run_took_no_time_and_has_not_stopped_waiting() -> None:
    assert counted(settled(RELEASED, took_us=0)) == {("released", "add"): 1}


def test_a_worker_whose_clock_is_behind_counts_no_negative_wait() -> None:
    assert counted(settled(waited_ms=-7))["wait_us", "add"] == 0


def test_a_store_that_does_not_know_when_jobs_came_in_line_counts_no_waits() -> None:
    counts = Tally.of([settled()], lambda _: 0).counts
    assert ("wait_us", "add") not in counts


def test_of_many_that_end_together_each_counts_once() -> None:
    for number in (63, 64, 65, 500, 1000):
        counts = counted(*(settled(waited_ms=at) for at in range(number)))
        assert counts["done", "add"] == number
        assert sum(n for (name, _), n in counts.items() if name.startswith("<")) == number
        assert sum(n for (name, _), n in counts.items() if name.startswith("~")) == number
