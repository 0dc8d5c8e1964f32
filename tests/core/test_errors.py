"""The exception tree, as drawn and as it is."""

from __future__ import annotations

import inspect
import re
from datetime import timedelta

import pytest

from headrace import errors
from headrace.errors import (
    ArgumentError,
    ConfigError,
    Defer,
    EnqueueUnknown,
    HeadraceError,
    JobCancelled,
    JobFailed,
    JobNotFound,
    LeaseLost,
    PayloadTooLarge,
    Reject,
    ResultExpired,
    ResultTimeout,
    RetryLater,
    StoreFull,
    StoreMismatch,
    StoreRefused,
    StoreUnavailable,
    TaskControl,
)


def drawn_parents() -> dict[str, str]:
    """Class name → name of its parent, as the picture at the top of the file has it."""
    parents: dict[str, str] = {}
    above: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        found = re.match(r"^((?:[│├└─ ]{4})*)([A-Z]\w+)(?:  |$)", line)
        if found:
            depth = len(found[1]) // 4
            above[depth:] = [found[2]]
            if depth:
                parents[found[2]] = above[depth - 1]
    return parents


def test_the_tree_is_as_drawn() -> None:
    real = {
        kind.__name__: kind.__bases__[0].__name__
        for _, kind in inspect.getmembers(errors, inspect.isclass)
        if issubclass(kind, HeadraceError) and kind is not HeadraceError
    }
    assert drawn_parents() == real


@pytest.mark.parametrize("control", [RetryLater(1), Reject("why"), Defer(1)])
def test_task_control_is_not_an_error_of_headrace(control: TaskControl) -> None:
    assert not isinstance(control, HeadraceError)
    assert isinstance(control, TaskControl)


@pytest.mark.parametrize(
    ("error", "retryable"),
    [
        (ConfigError("x"), False),
        (ArgumentError("t", "x"), False),
        (PayloadTooLarge("t", 2, 1), False),
        (EnqueueUnknown(["j"], "x"), True),
        (StoreUnavailable("x"), True),
        (StoreRefused("x"), False),
        (StoreFull("x"), True),
        (StoreMismatch("x"), False),
        (LeaseLost("x"), False),
        (JobNotFound("j"), False),
        (JobFailed("j", "r", "t", "x", ""), False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_error_says_whether_trying_again_can_help(error: HeadraceError, retryable: bool) -> None:
    assert error.retryable is retryable


def test_errors_are_also_what_python_code_would_catch() -> None:
    assert issubclass(ConfigError, ValueError)
    assert issubclass(ArgumentError, TypeError)
    assert issubclass(ResultTimeout, TimeoutError)


def test_errors_carry_fields() -> None:
    argument = ArgumentError("add", "does not fit", "b")
    assert (argument.task, argument.argument) == ("add", "b")
    large = PayloadTooLarge("add", 5_000_000, 4_194_304, "image")
    assert (large.task, large.size, large.limit, large.argument) == (
        "add", 5_000_000, 4_194_304, "image",
    )  # fmt: skip
    unknown = EnqueueUnknown(["a", "b"], "reset")
    assert (unknown.job_id, unknown.job_ids) == ("a", ("a", "b"))
    assert StoreUnavailable("x", sent=True).sent
    failed = JobFailed("j", "rejected", "ValueError", "bad", "Traceback …")
    assert (failed.job_id, failed.reason, failed.error_type) == ("j", "rejected", "ValueError")
    assert (failed.error_text, failed.traceback) == ("bad", "Traceback …")


def test_texts_say_which_job_and_what_to_do() -> None:
    assert "'image'" in str(PayloadTooLarge("add", 5_000_000, 4_194_304, "image"))
    assert "max_payload" in str(PayloadTooLarge("add", 5_000_000, 4_194_304))
    assert "job a " in str(EnqueueUnknown(["a"], "reset"))
    assert "2 jobs" in str(EnqueueUnknown(["a", "b"], "reset"))
    assert str(JobFailed("j", "rejected", "ValueError", "bad", "")).endswith("ValueError: bad")
    assert str(JobFailed("j", "expired", "", "too late", "")).endswith("(expired): too late")
    assert str(JobNotFound("job-7")).startswith("job job-7 is not in the store")
    assert str(JobCancelled("job-7")) == "job job-7 was cancelled"
    assert "2.5 s" in str(ResultTimeout("job-7", 2.5))
    assert "result_ttl" in str(ResultExpired("job-7"))


@pytest.mark.parametrize("delay", [90, 90.0, timedelta(minutes=1, seconds=30)])
def test_a_delay_is_seconds_or_a_timedelta(delay: float | timedelta) -> None:
    assert RetryLater(delay).delay == 90
    assert Defer(delay).delay == 90


def test_no_delay_leaves_it_to_the_retry_policy() -> None:
    assert RetryLater().delay is None
    assert Defer(0).delay == 0.0


@pytest.mark.parametrize("delay", [-1, float("nan"), float("inf"), timedelta(seconds=-1)])
def test_an_impossible_delay_is_refused_where_it_is_raised(delay: float | timedelta) -> None:
    with pytest.raises(ConfigError, match="delay"):
        RetryLater(delay)
    with pytest.raises(ConfigError, match="delay"):
        Defer(delay)


def test_control_has_a_reason_to_read() -> None:
    assert str(RetryLater(reason="rate limited")) == "rate limited"
    assert str(RetryLater())
    assert str(Reject("no such customer")) == "no such customer"
    assert str(Reject())
