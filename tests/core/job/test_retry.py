"""Retry policies: how long between runs, and after which errors."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.core.job.envelope import WireRetry
from headrace.core.job.retry import (
    Backoff,
    RemoteError,
    Retry,
    check_on_timeout,
    full_name,
    names_of,
    timeout_means,
)
from headrace.errors import ConfigError

seconds = st.floats(0, 1e11, allow_nan=False)
curves: st.SearchStrategy[Backoff] = st.sampled_from(["exponential", "linear", "fixed"])
backoffs = curves | st.lists(seconds, min_size=1, max_size=5)
attempts = st.integers(1, 10**6)
policies = st.builds(Retry, backoff=backoffs, base=seconds, cap=seconds, jitter=st.booleans())


class Flaky(ConnectionError):
    pass


@given(policies, attempts, st.integers())
@example(Retry(base=1e11, cap=1e11), 10**6, 0)
@example(Retry(base=5e-324, cap=1e11, jitter=False), 10**6, 0)
@example(Retry(backoff="linear", base=1e11, cap=1e11, jitter=False), 10**6, 0)
def test_a_delay_never_exceeds_the_cap(policy: Retry, attempt: int, seed: int) -> None:
    assert 0 <= policy.delay(attempt, random.Random(seed)) <= policy.cap


@given(st.sampled_from(["exponential", "linear"]), seconds, seconds, attempts)
def test_without_jitter_delays_grow_until_the_cap(
    backoff: Any, base: float, cap: float, attempt: int
) -> None:
    policy = Retry(backoff=backoff, base=base, cap=cap, jitter=False)
    assert policy.delay(attempt) <= policy.delay(attempt + 1) <= cap


@given(attempts)
def test_the_default_policy_stays_within_a_minute(attempt: int) -> None:
    assert 0 <= Retry().delay(attempt) <= 60


@pytest.mark.parametrize(
    ("backoff", "expected"),
    [
        ("exponential", [1, 2, 4, 8, 16, 20, 20]),
        ("linear", [1, 2, 3, 4, 5, 6, 7]),
        ("fixed", [1, 1, 1, 1, 1, 1, 1]),
        ([1, 5, 30], [1, 5, 20, 20, 20, 20, 20]),
        ((3,), [3, 3, 3, 3, 3, 3, 3]),
    ],
)
def test_each_curve_is_what_its_name_says(backoff: Any, expected: list[float]) -> None:
    policy = Retry(backoff=backoff, cap=20, jitter=False)
    assert [policy.delay(attempt) for attempt in range(1, 8)] == expected


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (Retry(backoff=[1, 300, 3600], jitter=False), [1, 300, 3600, 3600]),
        (Retry(backoff=[1, 300, 3600], cap=30, jitter=False), [1, 30, 30, 30]),
        (Retry(backoff="fixed", base=300, jitter=False), [300, 300, 300, 300]),
        (Retry(base=300, jitter=False), [300, 300, 300, 300]),
        (Retry(base=300, cap=1000, jitter=False), [300, 600, 1000, 1000]),
        (Retry(backoff="linear", base=25, jitter=False), [25, 50, 60, 60]),
        (Retry(base=25, cap=None, jitter=False), [25, 50, 60, 60]),
    ],
)
def test_only_a_cap_that_was_given_cuts_a_pause_that_was_asked_for(
    policy: Retry, expected: list[float]
) -> None:
    assert [policy.delay(attempt) for attempt in range(1, 5)] == expected
    assert [WireRetry.of(policy).policy().delay(attempt) for attempt in range(1, 5)] == expected


@given(policies, attempts, st.integers())
def test_jitter_only_shortens(policy: Retry, attempt: int, seed: int) -> None:
    plain = Retry(backoff=policy.backoff, base=policy.base, cap=policy.cap, jitter=False)
    assert policy.delay(attempt, random.Random(seed)) <= plain.delay(attempt)


def test_jitter_spreads_over_the_whole_length() -> None:
    rng = random.Random(7)
    delays = [Retry(backoff="fixed", base=10).delay(1, rng) for _ in range(1000)]
    assert min(delays) < 1
    assert max(delays) > 9
    assert 4 < sum(delays) / len(delays) < 6


def test_every_error_is_retried_unless_the_policy_says_otherwise() -> None:
    assert Retry().retries(ValueError())
    assert Retry().retries(KeyboardInterrupt())


def test_only_errors_in_on_are_retried() -> None:
    policy = Retry(on=(ConnectionError, "LookupError"))
    assert policy.retries(Flaky())
    assert policy.retries(KeyError())
    assert not policy.retries(ValueError())


def test_errors_in_never_are_not_retried() -> None:
    policy = Retry(never=(ValueError, "ConnectionError"))
    assert not policy.retries(UnicodeDecodeError("utf-8", b"", 0, 1, "x"))
    assert not policy.retries(Flaky())
    assert policy.retries(KeyError())


@pytest.mark.parametrize("error", [Flaky(), ConnectionResetError()])
def test_never_wins_over_on(error: Exception) -> None:
    assert not Retry(on=(ConnectionError,), never=(OSError,)).retries(error)
    assert not Retry(on=(type(error),), never=(type(error),)).retries(error)


def test_an_error_from_another_process_is_known_by_the_names_of_its_classes() -> None:
    remote = RemoteError(names_of(Flaky("x")), "x", "Traceback …")
    assert Retry(on=(Flaky,)).retries(remote)
    assert Retry(on=(ConnectionError,)).retries(remote)
    assert Retry(on=(full_name(Flaky),)).retries(remote)
    assert not Retry(never=(OSError,)).retries(remote)
    assert not Retry(on=(ValueError,)).retries(remote)


def test_a_class_goes_by_its_full_name_and_builtins_by_their_own() -> None:
    assert full_name(ValueError) == "ValueError"
    assert full_name(Flaky) == f"{__name__}.Flaky"
    assert names_of(Flaky())[:3] == (full_name(Flaky), "ConnectionError", "OSError")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("max_attempts", 0),
        ("max_attempts", -1),
        ("max_attempts", 2.0),
        ("max_attempts", True),
        ("max_attempts", None),
        ("backoff", "cubic"),
        ("backoff", ""),
        ("backoff", []),
        ("backoff", 5),
        ("backoff", None),
        ("backoff", b"abc"),
        ("backoff", [1, -1]),
        ("backoff", [1, "2"]),
        ("backoff", [float("inf")]),
        ("base", -1),
        ("base", "1"),
        ("base", float("nan")),
        ("cap", -0.1),
        ("cap", float("inf")),
        ("on", [ValueError()]),
        ("on", (int,)),
        ("on", None),
        ("never", (object(),)),
    ],
)
def test_a_bad_value_is_refused_by_the_name_of_its_option(option: str, value: object) -> None:
    options: dict[str, Any] = {option: value}
    with pytest.raises(ConfigError, match=rf"Retry\({option}\b"):
        Retry(**options)


def test_a_policy_is_a_value() -> None:
    assert Retry(5, on=[ValueError]) == Retry(5, on=(ValueError,))
    assert hash(Retry(5, backoff=[1, 2])) == hash(Retry(5, backoff=(1.0, 2.0)))
    with pytest.raises(AttributeError):
        Retry().cap = 5.0  # type: ignore[misc]


def test_a_call_says_what_its_timeout_means_or_else_its_task() -> None:
    assert timeout_means("", "dead") == "dead"
    assert timeout_means("defer", "dead") == "defer"
    # A newer sender may know more.
    assert timeout_means("sing", "dead") == "dead"
    with pytest.raises(ConfigError, match="on_timeout must be 'retry', 'dead' or 'defer', not 7"):
        check_on_timeout("on_timeout", 7)
