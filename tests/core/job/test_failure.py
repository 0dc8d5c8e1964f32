"""What a failed run means for its job."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.core.bounds import MAX_ERROR_TEXT, MAX_TRACEBACK
from headrace.core.job.failure import (
    PAYLOAD_TRIES,
    FailedRun,
    PayloadUnavailable,
    Unfit,
    decide_outcome,
    describe,
)
from headrace.core.job.history import NO_HISTORY, History, decode_history
from headrace.core.job.outcome import Dead, Outcome, Retried
from headrace.core.job.retry import RemoteError, Retry, names_of
from headrace.core.job.state import Reason, State
from headrace.core.job.verdict import decode_verdict
from headrace.errors import ConfigError, Defer, Reject, RetryLater

PROMPT = Retry(3, backoff="fixed", base=2, jitter=False)


class Broken(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text today")


def failed(
    error: BaseException,
    history: History = NO_HISTORY,
    *,
    delivered: int = 1,
    retry: Retry = PROMPT,
    result_ttl_ms: int = 60_000,
) -> FailedRun:
    return FailedRun(error, history, delivered, 1_000, 2_500, "worker-1", retry, result_ttl_ms)


def raised(error: BaseException) -> BaseException:
    """The error with the traceback that it has once it was raised."""
    try:
        raise error
    except BaseException as caught:
        return caught


def history_of(outcome: Outcome) -> History:
    assert isinstance(outcome, (Retried, Dead))
    return decode_history(outcome.history)


@given(st.integers(1, 12))
def test_max_attempts_is_the_number_of_runs_in_all(max_attempts: int) -> None:
    policy, history, runs = Retry(max_attempts), NO_HISTORY, 0
    while True:
        outcome = decide_outcome(failed(ValueError("x"), history, retry=policy))
        runs += 1
        history = history_of(outcome)
        if isinstance(outcome, Dead):
            break
    assert runs == max_attempts == len(history.attempts)
    assert outcome.reason == Reason.RETRIES_EXHAUSTED


def test_a_retry_waits_as_its_policy_says() -> None:
    outcome = decide_outcome(failed(ValueError()))
    assert isinstance(outcome, Retried)
    assert outcome.delay_ms == 2_000


@given(st.integers(), st.integers(1, 1000), st.floats(0, 1e9), st.floats(0, 1e9))
def test_a_retry_never_waits_longer_than_the_cap(
    seed: int, earlier: int, base: float, cap: float
) -> None:
    first = history_of(decide_outcome(failed(ValueError("x"))))
    history = History(first.attempts * earlier, earlier, 0)
    policy = Retry(10**6, base=base, cap=cap)
    outcome = decide_outcome(failed(ValueError(), history, retry=policy), random.Random(seed))
    assert isinstance(outcome, Retried)
    assert 0 <= outcome.delay_ms <= cap * 1000 + 1


def test_an_error_that_the_policy_does_not_retry_kills_the_job_at_once() -> None:
    outcome = decide_outcome(failed(KeyError("x"), retry=Retry(on=(ConnectionError,))))
    assert isinstance(outcome, Dead)
    assert outcome.reason == Reason.NOT_RETRYABLE


def test_never_wins_over_on() -> None:
    policy = Retry(on=(OSError,), never=(ConnectionError,))
    outcome = decide_outcome(failed(ConnectionResetError(), retry=policy))
    assert isinstance(outcome, Dead)
    assert outcome.reason == Reason.NOT_RETRYABLE
    assert isinstance(decide_outcome(failed(FileNotFoundError(), retry=policy)), Retried)


def test_a_job_whose_last_run_fails_with_what_is_never_retried_says_so() -> None:
    outcome = decide_outcome(failed(ValueError(), retry=Retry(1, never=(ValueError,))))
    assert isinstance(outcome, Dead)
    assert outcome.reason == Reason.NOT_RETRYABLE


def test_reject_kills_the_job_with_its_reason() -> None:
    outcome = decide_outcome(failed(Reject("no such customer"), retry=Retry(100)))
    assert isinstance(outcome, Dead)
    assert outcome.reason == Reason.REJECTED
    assert history_of(outcome).attempts[-1].error_text == "no such customer"


@pytest.mark.parametrize("reason", list(Reason))
def test_an_unfit_job_is_dead_for_the_reason_it_names(reason: Reason) -> None:
    outcome = decide_outcome(failed(Unfit(reason, "cannot be run"), retry=Retry(100)))
    assert isinstance(outcome, Dead)
    assert outcome.reason == reason
    assert history_of(outcome).attempts[-1].error_text == "cannot be run"


def test_retry_later_sets_the_delay_and_uses_an_attempt() -> None:
    outcome = decide_outcome(failed(RetryLater(7.5)))
    assert isinstance(outcome, Retried)
    assert outcome.delay_ms == 7_500
    assert len(history_of(outcome).attempts) == 1


def test_retry_later_without_a_delay_waits_as_the_policy_says() -> None:
    outcome = decide_outcome(failed(RetryLater()))
    assert isinstance(outcome, Retried)
    assert outcome.delay_ms == 2_000


def test_retry_later_at_once_does_not_wait() -> None:
    outcome = decide_outcome(failed(RetryLater(0)))
    assert isinstance(outcome, Retried)
    assert outcome.delay_ms == 0


def test_retry_later_is_asked_for_and_so_not_filtered() -> None:
    policy = Retry(3, on=(ConnectionError,), never=(Exception,))
    assert isinstance(decide_outcome(failed(RetryLater(1), retry=policy)), Retried)


def test_retry_later_gives_up_after_the_last_attempt() -> None:
    outcome = decide_outcome(failed(RetryLater(1), retry=Retry(1)))
    assert isinstance(outcome, Dead)
    assert outcome.reason == Reason.RETRIES_EXHAUSTED


@given(st.integers(0, 5), st.integers(1, 3))
def test_defer_uses_no_attempt_and_keeps_the_history(earlier: int, delivered: int) -> None:
    history = NO_HISTORY
    for _ in range(earlier):
        history = history_of(decide_outcome(failed(ValueError("x"), history, retry=Retry(100))))
    outcome = decide_outcome(failed(Defer(3), history, delivered=delivered, retry=Retry(1)))
    assert isinstance(outcome, Retried)
    assert outcome.delay_ms == 3_000
    later = history_of(outcome)
    assert later.attempts == history.attempts
    assert later.deliveries == history.deliveries + delivered
    assert later.crashes == history.crashes + delivered - 1


ends: st.SearchStrategy[list[tuple[int, Exception]]] = st.lists(
    st.tuples(st.integers(1, 4), st.sampled_from([ValueError("x"), Defer(1), RetryLater(1)])),
    max_size=12,
)


@given(ends)
def test_deliveries_and_crashes_add_up_over_any_life(life: list[tuple[int, Exception]]) -> None:
    history = NO_HISTORY
    for delivered, error in life:
        history = history_of(
            decide_outcome(failed(error, history, delivered=delivered, retry=Retry(100)))
        )
    assert history.deliveries == sum(delivered for delivered, _ in life)
    assert history.crashes == sum(delivered - 1 for delivered, _ in life)
    assert len(history.attempts) == sum(not isinstance(error, Defer) for _, error in life)


def test_attempts_are_kept_in_order_with_times_and_worker() -> None:
    history = NO_HISTORY
    for text in ("first", "second", "third"):
        history = history_of(decide_outcome(failed(ValueError(text), history)))
    assert [attempt.number for attempt in history.attempts] == [1, 2, 3]
    assert [attempt.error_text for attempt in history.attempts] == ["first", "second", "third"]
    assert {attempt.worker for attempt in history.attempts} == {"worker-1"}
    assert {(attempt.started_ms, attempt.ended_ms) for attempt in history.attempts} == {
        (1_000, 2_500)
    }


def test_a_dead_job_leaves_a_verdict_for_those_who_wait() -> None:
    outcome = decide_outcome(failed(raised(Reject("why"))))
    assert isinstance(outcome, Dead)
    verdict = decode_verdict(outcome.verdict)
    assert (verdict.state, verdict.reason) == (State.DEAD, Reason.REJECTED)
    assert (verdict.error_type, verdict.error_text) == ("headrace.errors.Reject", "why")
    assert "raise error" in verdict.traceback
    assert outcome.ttl_ms == 60_000


def test_a_task_that_keeps_no_result_leaves_no_verdict() -> None:
    outcome = decide_outcome(failed(Reject("why"), result_ttl_ms=0))
    assert isinstance(outcome, Dead)
    assert (outcome.verdict, outcome.ttl_ms) == (b"", 0)
    assert history_of(outcome).attempts[-1].error_text == "why"


def test_the_same_error_gives_the_same_outcome() -> None:
    run = failed(raised(ValueError("x")), retry=Retry(5))
    assert decide_outcome(run, random.Random(1)) == decide_outcome(run, random.Random(1))


@given(st.integers(0, 10 * MAX_TRACEBACK))
def test_error_text_and_traceback_are_bounded(length: int) -> None:
    error = raised(ValueError("x" * length))
    _, text, trace = describe(error)
    assert len(text) <= MAX_ERROR_TEXT
    # A line in the middle tells what was left out.
    assert len(trace) <= MAX_TRACEBACK + 100
    if length < MAX_ERROR_TEXT:
        assert text == str(error)


def test_a_long_traceback_keeps_both_ends() -> None:
    _, text, trace = describe(raised(ValueError("a" * 50_000 + " and so it ended")))
    assert trace.startswith("Traceback")
    assert trace.rstrip().endswith("and so it ended")
    assert "left out" in trace
    assert text.endswith("…")


def test_the_attempts_of_a_job_stay_small_however_deep_it_recursed() -> None:
    def dive(depth: int) -> int:
        return dive(depth + 1) + dive(depth - 1)

    try:
        dive(0)
    except RecursionError as error:
        outcome = decide_outcome(failed(error))
    assert isinstance(outcome, Retried)
    assert len(outcome.history) < 2 * MAX_TRACEBACK


def test_an_error_without_a_text_is_described_all_the_same() -> None:
    kind, text, trace = describe(raised(Broken()))
    assert kind == f"{__name__}.Broken"
    assert "RuntimeError" in text
    assert "Traceback" in trace
    assert isinstance(decide_outcome(failed(raised(Broken()))), Retried)


odd_texts = st.text(st.sampled_from("a\n\0\x7f\ud800\udcff\ue000\U0010ffff…"), max_size=20)


@given(odd_texts)
@example("\udcff")
def test_whatever_the_text_of_an_error_it_can_be_stored(text: str) -> None:
    """A name of a file that is not UTF-8 reaches Python as text with lone surrogates."""
    for error in (ValueError(text), Reject(text), RetryLater(1, text), Unfit(Reason.EXPIRED, text)):
        assert len(history_of(decide_outcome(failed(raised(error)))).attempts) == 1


def test_an_error_from_another_process_keeps_its_name_text_and_traceback() -> None:
    remote = RemoteError(names_of(KeyError("x")), "'x'", "Traceback (in the child)")
    assert describe(raised(remote)) == ("KeyError", "'x'", "Traceback (in the child)")


LONG = 1e10


@pytest.mark.parametrize(
    ("error", "retry"),
    [
        (RetryLater(LONG), PROMPT),
        (Defer(LONG), PROMPT),
        (ValueError(), Retry(backoff="fixed", base=LONG, cap=LONG, jitter=False)),
    ],
    ids=["RetryLater", "Defer", "Retry"],
)
def test_a_delay_of_ages_still_gives_an_outcome(error: Exception, retry: Retry) -> None:
    outcome = decide_outcome(failed(error, retry=retry))
    assert isinstance(outcome, Retried)
    assert 0 < outcome.delay_ms < 2**63


@pytest.mark.parametrize("delay", [0.0004, 0.0001, 1.0006])
def test_a_delay_is_never_cut_short(delay: float) -> None:
    outcome = decide_outcome(failed(RetryLater(delay)))
    assert isinstance(outcome, Retried)
    assert outcome.delay_ms >= delay * 1000


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3), GeneratorExit()])
def test_what_is_not_an_exception_is_judged_like_one(error: BaseException) -> None:
    assert isinstance(decide_outcome(failed(raised(error))), Retried)


def test_a_group_of_exceptions_is_described_with_its_parts() -> None:
    group: ExceptionGroup[Any] = ExceptionGroup("two", [ValueError("one"), KeyError("other")])
    kind, _, trace = describe(raised(group))
    assert kind == "ExceptionGroup"
    assert "ValueError: one" in trace
    assert "KeyError: 'other'" in trace


def test_a_job_that_defers_itself_at_once_has_a_brake() -> None:
    delays, history = [], NO_HISTORY
    for _ in range(12):
        outcome = decide_outcome(failed(Defer(0), history))
        assert isinstance(outcome, Retried)
        history = decode_history(outcome.history)
        delays.append(outcome.delay_ms)
    assert delays == [10, 20, 40, 80, 160, 320, 640, 1280, 2560, 5000, 5000, 5000]
    assert (history.defers, history.attempts) == (12, ())


def test_a_delay_that_was_asked_for_has_none() -> None:
    many = History(defers=900)
    outcome = decide_outcome(failed(Defer(0.002), many))
    assert isinstance(outcome, Retried)
    assert outcome.delay_ms == 2


def test_the_bound_on_deferring_is_a_thousand_or_none() -> None:
    many = failed(Defer(1), History(defers=1000))
    outcome = decide_outcome(many)
    assert isinstance(outcome, Dead)
    assert outcome.reason == "defers_exhausted"
    assert isinstance(decide_outcome(msgspec.structs.replace(many, max_defers=None)), Retried)


def test_a_payload_that_cannot_be_had_is_tried_so_often_in_a_row() -> None:
    gone, history, delays = PayloadUnavailable("no bucket"), NO_HISTORY, []
    for _ in range(PAYLOAD_TRIES - 1):
        outcome = decide_outcome(failed(gone, history))
        assert isinstance(outcome, Retried)
        history = decode_history(outcome.history)
        delays.append(outcome.delay_ms)
    assert delays[:8] == [1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000]
    dead = decide_outcome(failed(gone, history))
    assert isinstance(dead, Dead)
    assert dead.reason == Reason.PAYLOAD_UNAVAILABLE

    had = decide_outcome(failed(Defer(1), history))
    outcome = decide_outcome(failed(gone, history_of(had)))
    assert isinstance(outcome, Retried)
    assert outcome.delay_ms == 1000


def test_deliveries_for_other_reasons_are_no_tries_to_have_a_payload() -> None:
    polled = History(deliveries=500, crashes=2, defers=400)
    outcome = decide_outcome(failed(PayloadUnavailable("no bucket"), polled))
    assert isinstance(outcome, Retried)
    assert outcome.delay_ms == 1000
    assert history_of(outcome).defers == 400


@pytest.mark.parametrize("delay", ["5", True, -1, float("nan"), float("inf")])
def test_a_delay_that_is_no_time_is_refused_in_words(delay: Any) -> None:
    for control in (Defer, RetryLater):
        with pytest.raises(ConfigError, match="zero or more seconds, not"):
            control(delay)
