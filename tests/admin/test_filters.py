"""Which jobs a filter means, in words."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from headrace import State
from headrace.admin import JobFilter

MOMENT = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (JobFilter(), "all unfinished jobs in all queues and groups"),
        (JobFilter(state=State.WAITING, queue="mail"), "all waiting jobs in queue mail"),
        (
            JobFilter(task="send", flow="f-1", search="bob"),
            "all unfinished jobs of task send of the flow of f-1 in all queues and groups "
            "with the text “bob”",
        ),
        (
            JobFilter(queue="mail", since=MOMENT),
            "all unfinished jobs in queue mail that were sent since 2026-01-31 12:00:00 UTC",
        ),
    ],
)
def test_jobs_are_described(wanted: JobFilter, words: str) -> None:
    assert wanted.describe_jobs() == words


def test_dead_jobs_are_described_with_reason_error_and_time_of_death() -> None:
    wanted = JobFilter(queue="mail", reason="rejected", error="no bank", until=MOMENT)
    assert wanted.describe_dead() == (
        "all dead jobs in queue mail with the reason rejected with “no bank” in the error "
        "that died before 2026-01-31 12:00:00 UTC"
    )


@pytest.mark.parametrize(
    ("span", "words"),
    [
        (timedelta(seconds=90), "90 seconds"),
        (timedelta(minutes=15), "15 minutes"),
        (timedelta(hours=1), "hour"),
        (timedelta(days=1), "24 hours"),
        (timedelta(days=7), "7 days"),
        (timedelta(days=2, hours=1), "49 hours"),
    ],
)
def test_lengths_of_time_are_said_in_whole_units(span: timedelta, words: str) -> None:
    assert JobFilter(since=span).describe_dead().endswith(f"that died in the last {words}")


def test_both_bounds_may_be_lengths_of_time() -> None:
    wanted = JobFilter(since=timedelta(days=2), until=timedelta(hours=1))
    assert wanted.describe_dead().endswith("in the last 2 days and more than 1 hour ago")


def test_what_people_typed_is_shown_as_the_caller_wants_it() -> None:
    wanted = JobFilter(queue="mail", task="send", state="odd")
    assert wanted.describe_jobs(str.upper) == "all ODD jobs of task SEND in queue MAIL"


def test_an_empty_text_asks_for_nothing() -> None:
    assert not JobFilter(task="", search="", arguments=False)
    assert JobFilter(queue="mail")
    assert not JobFilter(queue="mail").is_narrow
    assert JobFilter(search="bob").is_narrow


def test_only_what_is_given_is_handed_on() -> None:
    assert "arguments" not in JobFilter(task="send").for_jobs
    assert JobFilter(task="send", arguments=False).for_dead["arguments"] is False
