"""What a task declares and a call may change; a wrong value fails where it is written."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.bounds import DEFAULT_QUEUE, RESULT_TTL, TIMEOUT
from headrace.core.clock import to_ms
from headrace.core.job.envelope import NO_BOUND, WireRetry
from headrace.core.job.retry import Retry
from headrace.core.task.options import TaskOptions
from headrace.core.task.send_options import PLAIN, SendOptions, option_hint
from headrace.errors import ConfigError

NOON = datetime(2030, 6, 1, 12, tzinfo=UTC)


def changed(**options: Any) -> SendOptions:
    return PLAIN.changed(**options)


def test_a_task_has_the_documented_defaults() -> None:
    options = TaskOptions("add", "loop")
    assert (options.queue, options.timeout, options.result_ttl) == (
        DEFAULT_QUEUE,
        TIMEOUT,
        RESULT_TTL,
    )
    assert options.retry == Retry(3, base=1, cap=60)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("name", ""),
        ("name", "two words"),
        ("name", None),
        ("name", "x" * 201),
        ("queue", ""),
        ("queue", "a b"),
        ("queue", "{mail}"),
        ("queue", 5),
        ("run_in", "fork"),
        ("run_in", None),
        ("run_in", ["thread"]),
        ("retry", 3),
        ("retry", None),
        ("retry", Retry),
        ("timeout", 0),
        ("timeout", -1),
        ("timeout", "30"),
        ("timeout", True),
        ("timeout", float("nan")),
        ("timeout", float("inf")),
        ("result_ttl", -1),
        ("result_ttl", None),
        ("result_ttl", float("inf")),
        ("priority", -1),
        ("priority", 101),
        ("priority", 1.5),
        ("priority", None),
        ("priority", True),
        ("unique", "name"),
        ("unique", None),
        ("unique_for", -1),
        ("unique_for", "5"),
        ("unique_for", 5),
        ("debounce", -1),
        ("debounce", None),
        ("rate", "often"),
        ("rate", 5),
        ("burst", 5),
        ("rate_key", str),
        ("concurrency", 0),
        ("concurrency", 1.5),
        ("concurrency", True),
        ("batch", 0),
        ("batch", "many"),
        ("max_wait", 1),
    ],
)
def test_a_bad_value_on_a_task_is_refused_by_the_name_of_its_option(
    option: str, value: object
) -> None:
    fields: dict[str, Any] = {"name": "add", "run_in": "loop", option: value}
    with pytest.raises(ConfigError, match=rf"\b{option}\b"):
        TaskOptions.of(fields)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"unique": True, "unique_for": 5, "debounce": 5}, "contradict"),
        ({"rate": "5/s", "burst": 6}, "burst"),
        ({"rate": "5/s", "rate_key": "eu"}, "rate_key"),
        ({"batch": 5, "max_wait": -1}, "max_wait"),
        ({"batch": 5, "max_wait": "1"}, "max_wait"),
        ({"batch": 5, "run_in": "process"}, "process"),
    ],
)
def test_options_of_a_task_that_do_not_go_together_are_refused(
    options: dict[str, Any], what: str
) -> None:
    with pytest.raises(ConfigError, match=f"'add': .*{what}"):
        TaskOptions.of({"name": "add", "run_in": "loop", **options})


def test_a_batch_waits_half_a_second_by_default() -> None:
    assert TaskOptions("load", "loop", batch=5).max_wait == 0.5
    given: dict[str, Any] = {"max_wait": timedelta(seconds=2)}
    assert TaskOptions("load", "loop", batch=5, **given).max_wait == 2.0


@pytest.mark.parametrize(
    ("unknown", "said"),
    [
        ({"delay": 5}, "; options go before: add.options(delay=5).enqueue(…)"),
        ({"countdown": 5, "b": 1}, "; options go before: add.options(delay=5).enqueue(…)"),
        (
            {"eta": NOON, "queue": "a"},
            "; options go before: add.options(at=…, queue='a').enqueue(…)",
        ),
        ({"priority": 9}, "; options go before: add.options(priority=9).enqueue(…)"),
        ({"soft_time_limit": 9}, "; options go before: add.options(timeout=9).enqueue(…)"),
        ({"queue": "a" * 99}, "; options go before: add.options(queue=…).enqueue(…)"),
        ({"name": "a", "max_retries": 3, "kwargs": {}}, ""),
    ],
)
def test_an_option_among_the_arguments_is_told_its_place(
    unknown: dict[str, object], said: str
) -> None:
    assert option_hint("sums.add", unknown) == said


def test_an_unknown_option_of_a_task_is_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"no 'colour'; it takes aliases, batch, .*debounce, .*name"
    ):
        TaskOptions.of_function(abs, {"colour": "red"})


def test_what_a_task_does_not_say_its_function_says() -> None:
    async def add() -> None: ...

    options = TaskOptions.of_function(add, {"name": None, "retry": None, "timeout": None})
    assert (options.name, options.run_in, options.retry) == ("add", "loop", Retry())
    assert options.timeout is None
    assert TaskOptions.of_function(abs, {"run_in": None}).run_in == "thread"


def test_a_refused_option_says_which_task_it_is_of() -> None:
    with pytest.raises(ConfigError, match="'send_mail'"):
        TaskOptions("send_mail", "loop", timeout=-1)


def test_no_timeout_and_no_result_are_fine() -> None:
    options = TaskOptions("add", "thread", timeout=None, result_ttl=0)
    assert (options.timeout, options.result_ttl) == (None, 0)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("delay", -1),
        ("delay", "5"),
        ("delay", None),
        ("delay", True),
        ("delay", float("nan")),
        ("delay", float("inf")),
        ("delay", timedelta(seconds=-1)),
        ("delay", NOON),
        ("at", 60),
        ("at", "2030-06-01"),
        ("at", None),
        ("at", datetime(2030, 6, 1)),
        ("at", timedelta(1)),
        ("id", ""),
        ("id", "a\nb"),
        ("id", "x" * 300),
        ("id", 5),
        ("id", None),
        ("id", b"order-17"),
        ("queue", ""),
        ("queue", "two words"),
        ("queue", None),
        ("retry", 3),
        ("retry", None),
        ("timeout", -1),
        ("timeout", "30"),
        ("timeout", float("inf")),
        ("expires", -1),
        ("expires", "tomorrow"),
        ("expires", None),
        ("expires", datetime(2030, 6, 1)),
        ("headers", {"tenant": 5}),
        ("headers", {5: "tenant"}),
        ("headers", [("tenant", "eu")]),
        ("headers", "tenant"),
        ("headers", None),
        ("priority", -1),
        ("priority", 101),
        ("priority", "high"),
        ("priority", None),
        ("key", ""),
        ("key", None),
        ("key", 7),
        ("key", "a\x00b"),
        ("key", "é" * 129),
        ("key", "\ud800"),
        ("unique", ""),
        ("unique", None),
        ("unique", "a\nb"),
        ("unique", "x" * 257),
        ("unique_for", -1),
        ("unique_for", "5"),
        ("debounce", -1),
        ("debounce", None),
        ("rate_key", ""),
        ("rate_key", "\x7f"),
        ("headers", {"tenant": "\ud800"}),
        ("max_defers", -1),
        ("max_defers", "many"),
    ],
)
def test_a_bad_value_for_a_call_is_refused_by_the_name_of_its_option(
    option: str, value: object
) -> None:
    with pytest.raises(ConfigError, match=rf"\b{option}\b"):
        changed(**{option: value})


@pytest.mark.parametrize("option", ["delay", "expires", "timeout"])
@pytest.mark.parametrize("ages", [1e300, 1e306, 10**400], ids=["1e300", "1e306", "10**400"])
def test_a_time_that_no_store_can_hold_is_refused_by_the_name_of_its_option(
    option: str, ages: float
) -> None:
    with pytest.raises(ConfigError, match=rf"\b{option}\b"):
        changed(**{option: ages})


def test_delay_and_at_together_are_refused() -> None:
    with pytest.raises(ConfigError, match="delay= or at="):
        changed(delay=5, at=NOON)


def test_of_delay_and_at_the_later_one_counts() -> None:
    assert changed(delay=5).changed(at=NOON).delay_ms is None
    assert changed(at=NOON).changed(delay=5).at_ms is None


def test_of_two_kinds_of_expiry_the_later_one_counts() -> None:
    assert changed(expires=5).changed(expires=NOON).expires_in_ms is None
    assert changed(expires=NOON).changed(expires=5).expires_at_ms is None


def test_moments_are_milliseconds_since_1970_whatever_the_time_zone() -> None:
    east = NOON.astimezone(timezone(timedelta(hours=9)))
    assert changed(at=NOON).at_ms == changed(at=east).at_ms == 1_906_545_600_000
    assert changed(expires=east).expires_at_ms == 1_906_545_600_000


@given(st.floats(0, 1e9))
def test_a_delay_is_never_cut_short_and_at_most_a_millisecond_longer(seconds: float) -> None:
    assert seconds * 1000 <= to_ms("delay", seconds) <= seconds * 1000 + 1


@given(st.timedeltas(timedelta(0), timedelta(days=3650)))
def test_a_timedelta_means_the_same_as_its_seconds(duration: timedelta) -> None:
    assert to_ms("delay", duration) == to_ms("delay", duration.total_seconds())


def test_options_add_up() -> None:
    options = changed(queue="mail").changed(timeout=5).changed(headers={"tenant": "eu"})
    options = options.changed(retry=Retry(9)).changed(id="order-17", expires=60)
    assert (options.queue, options.id, options.expires_in_ms) == ("mail", "order-17", 60_000)
    assert options.overrides.timeout == 5
    assert options.overrides.headers == {"tenant": "eu"}
    assert options.overrides.retry == WireRetry.of(Retry(9))


def test_changing_options_leaves_the_old_ones_alone() -> None:
    before = changed(delay=1, headers={"tenant": "eu"})
    copy = msgspec.structs.replace(before)
    before.changed(delay=2, headers={"tenant": "us"}, timeout=3, queue="mail")
    assert before == copy


def test_headers_are_copied() -> None:
    headers = {"tenant": "eu"}
    options = changed(headers=headers)
    headers["tenant"] = "us"
    assert options.overrides.headers == {"tenant": "eu"}


def test_no_timeout_is_not_the_tasks_own() -> None:
    assert changed().overrides.timeout is None
    assert changed(timeout=None).overrides.timeout == 0.0
    assert changed(timeout=0.001).overrides.timeout == 0.001
    assert changed(timeout=timedelta(minutes=1)).overrides.timeout == 60


def test_any_number_of_deferrals_is_not_the_tasks_own() -> None:
    assert changed().overrides.max_defers is None
    assert changed(max_defers=0).overrides.max_defers == 0
    assert changed(max_defers=None).overrides.max_defers == NO_BOUND
    assert changed(max_defers=3).changed(delay=5).overrides.max_defers == 3


def test_a_call_without_a_timeout_cannot_say_what_its_timeout_means() -> None:
    with pytest.raises(ConfigError, match=r"options\(\): timeout=None is no limit, so on_timeout="):
        changed(timeout=None, on_timeout="dead")
    assert changed(timeout=5, on_timeout="dead").overrides.on_timeout == "dead"


def test_only_plain_options_are_plain() -> None:
    assert not PLAIN
    assert changed(delay=5)


def test_an_option_that_does_not_exist_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="no 'dealy'"):
        changed(dealy=5)


@pytest.mark.parametrize(
    "options",
    [
        {"delay": timedelta(hours=2), "expires": timedelta(hours=1)},
        {"at": datetime(2030, 1, 2, tzinfo=UTC), "expires": datetime(2030, 1, 1, tzinfo=UTC)},
    ],
)
def test_a_job_that_expires_before_it_may_start_is_refused(options: Any) -> None:
    with pytest.raises(ConfigError, match="expires before it may start"):
        PLAIN.changed(**options)
    name, value = options.popitem()
    with pytest.raises(ConfigError, match="expires before it may start"):
        PLAIN.changed(**{name: value}).changed(**options)
