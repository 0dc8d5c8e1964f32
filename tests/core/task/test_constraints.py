"""What a task declares and a call changes becomes the constraints of its jobs."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from headrace import ArgumentError, Headrace, Task
from headrace.core.job.constraints import NO_CONSTRAINTS, QUEUE_LIMIT, Limit
from headrace.core.job.parcel import Parcel
from headrace.errors import ConfigError


def half(number: int) -> int:
    return number // 2


def declared(**options: Any) -> Task[..., int]:
    app = Headrace("memory://")

    def total(first: int, second: int = 2, *, third: int = 3) -> int:
        return first + second

    made: Task[..., int] = app.task(name="total", **options)(total)
    return made


def parcel(task: Task[..., int], *args: Any, **kwargs: Any) -> Parcel:
    return task.call(*(args if args or kwargs else (1,)), **kwargs).parcel()


def unique(task: Task[..., int], *args: Any, **kwargs: Any) -> str:
    return parcel(task, *args, **kwargs).constraints.unique


@pytest.mark.parametrize("options", [{}, {"delay": 5}, {"headers": {"a": "b"}}, {"id": "x"}])
def test_a_job_without_constraints_has_the_very_constraints_of_none(options: Any) -> None:
    task = declared()
    assert parcel(task.options(**options)).constraints is NO_CONSTRAINTS
    assert parcel(task).is_plain


def test_a_priority_is_that_of_the_call_or_else_of_the_task() -> None:
    assert parcel(declared(priority=7)).constraints.priority == 7
    assert parcel(declared(priority=7).options(priority=0)).constraints.priority == 0
    assert parcel(declared().options(priority=100)).constraints.priority == 100


def test_a_key_is_a_lane_of_its_own_width() -> None:
    one, three = declared(), declared(concurrency=3)
    constraints = [
        parcel(task).constraints
        for task in (one.options(key="c-7"), three.options(key="c-7"), three)
    ]
    assert [(each.lane, each.width) for each in constraints] == [
        ("key:c-7", 1), ("key:c-7", 3), ("task:total", 3),
    ]  # fmt: skip


def test_the_store_knows_how_long_to_keep_what_it_ends_itself() -> None:
    assert parcel(declared(result_ttl=5, priority=1)).constraints.ttl_ms == 5_000
    assert parcel(declared(result_ttl=0, priority=1)).constraints.ttl_ms == 0
    assert parcel(declared(result_ttl=5)).constraints is NO_CONSTRAINTS


def test_calls_that_mean_the_same_are_one() -> None:
    task = declared(unique=True)
    same = [
        unique(task, 1), unique(task, 1, 2), unique(task, first=1), unique(task, second=2, first=1),
        unique(task, 1, third=3),
    ]  # fmt: skip
    assert len(set(same)) == 1
    assert len({same[0], unique(task, 2), unique(task, 1, 3), unique(task, 1, third=4)}) == 4


def test_the_order_in_which_dicts_and_sets_were_filled_does_not_matter() -> None:
    task = declared(unique=True)
    one, other = {"a": 1, "b": {"x", "y", "z"}}, {"b": {"z", "y", "x"}, "a": 1}
    assert unique(task, one) == unique(task, other)


def test_the_same_arguments_of_another_task_are_another_job() -> None:
    app = Headrace("memory://")
    one, other = (app.task(name=name, unique=True)(half) for name in ("one", "other"))
    assert one.call(1).parcel().constraints.unique != other.call(1).parcel().constraints.unique


def test_a_function_of_the_arguments_may_name_the_job() -> None:
    task = declared(unique=lambda first, *rest, **named: f"n-{first}")
    assert unique(task, 7) == unique(task, 7, 8) == "total:n-7"


def test_a_call_may_name_itself_unique_or_not() -> None:
    assert unique(declared().options(unique="order-17")) == "total:order-17"
    assert unique(declared().options(unique=True)) == unique(declared(unique=True))
    assert parcel(declared(unique=True).options(unique=False)).constraints is NO_CONSTRAINTS


def test_a_long_name_is_kept_short() -> None:
    long = unique(declared().options(unique="x" * 256))
    assert len(long) == 32
    assert long != unique(declared().options(unique="x" * 255))


def test_a_name_may_be_kept_after_the_end() -> None:
    task = declared(unique=True, unique_for=timedelta(minutes=1))
    assert parcel(task).constraints.unique_for_ms == 60_000
    assert parcel(task.options(unique_for=0.5)).constraints.unique_for_ms == 500


def test_a_debounced_job_waits_and_is_unique() -> None:
    sent = parcel(declared(debounce=5))
    assert (sent.delay_ms, sent.constraints.debounced) == (5_000, True)
    assert sent.constraints.unique == unique(declared(unique=True))
    changed = parcel(declared(debounce=5).options(debounce=timedelta(seconds=1)))
    assert changed.delay_ms == 1_000
    assert parcel(declared(debounce=5).options(delay=60)).delay_ms == 60_000
    assert parcel(declared(debounce=5).options(unique=False)).is_plain


def test_a_debounced_job_has_its_own_name_if_it_is_given_one() -> None:
    sent = parcel(declared(unique=lambda *_: "same").options(debounce=1))
    assert (sent.constraints.unique, sent.delay_ms) == ("total:same", 1_000)


def test_a_task_may_limit_its_keys_and_itself() -> None:
    both, keys = declared(concurrency=4, key_concurrency=2), declared(key_concurrency=2)
    limited = declared(concurrency=4, rate="10/s")
    made = [
        parcel(task).constraints
        for task in (both.options(key="x"), both, keys.options(key="x"), keys, limited)
    ]
    lanes = [(each.lane, each.width, each.task_lane, each.task_width) for each in made]
    assert lanes == [
        ("key:x", 2, "task:total", 4),
        ("task:total", 4, "", 1),
        ("key:x", 2, "", 1),
        ("", 1, "", 1),
        ("", 1, "task:total", 4),
    ]


def test_a_rate_is_a_limit_by_the_name_of_the_task_and_its_key() -> None:
    limit = Limit("rate:total", 10, 1_020, 2)
    assert parcel(declared(rate="10/s", burst=2)).constraints.limits == (limit,)
    by_key = declared(rate="10/s", rate_key=lambda first: f"n-{first}")
    assert parcel(by_key, 7).constraints.limits[0].name == "rate:total:n-7"
    assert parcel(by_key.options(rate_key="eu"), 7).constraints.limits[0].name == "rate:total:eu"


def test_a_rate_of_the_queue_is_a_limit_of_all_that_is_sent_to_it() -> None:
    app = Headrace("memory://")
    task = app.task(queue="mail", rate="5/s")(half)
    plain = app.task(name="plain")(half)
    app.queue("mail", rate="100/m", burst=3)
    names = [limit.name for limit in task.call(1).parcel().constraints.limits]
    assert names == ["rate:half", QUEUE_LIMIT]
    assert plain.call(1).parcel().constraints is NO_CONSTRAINTS
    assert plain.options(queue="mail").call(1).parcel().constraints.limits == (
        Limit(QUEUE_LIMIT, 100, 60_050, 3),
    )


def test_a_queue_is_declared_once() -> None:
    app = Headrace("memory://")
    app.queue("mail", rate="100/m")
    with pytest.raises(ConfigError, match="'mail' is declared twice"):
        app.queue("mail", rate="200/m")
    assert list(app.queue_settings) == ["mail"]


@pytest.mark.parametrize(
    ("task", "options", "what"),
    [
        ({}, {"unique_for": 5}, "unique_for"),
        ({"unique": True}, {"unique": False, "unique_for": 5}, "unique_for"),
        ({}, {"unique": False, "debounce": 5}, "debounce"),
        ({"unique": True, "unique_for": 5}, {"debounce": 5}, "contradict"),
        ({"debounce": 5}, {"unique_for": 5}, "contradict"),
        ({}, {"rate_key": "eu"}, "rate_key"),
    ],
)
def test_options_that_would_do_nothing_are_refused(task: Any, options: Any, what: str) -> None:
    with pytest.raises(ConfigError, match=f"'total'.*{what}"):
        declared(**task).options(**options)


@pytest.mark.parametrize("text", ["", "a\nb", "x" * 257, None, 5, b"x", "\ud800"])
@pytest.mark.parametrize("option", ["unique", "rate_key"])
def test_a_bad_text_made_of_the_arguments_fails_the_call(option: str, text: object) -> None:
    task = declared(rate="1/s", **{option: lambda first: text})
    with pytest.raises(ArgumentError, match=f"'total'.*{option}"):
        task.call(1)


def test_a_function_of_the_arguments_that_fails_says_so() -> None:
    task = declared(unique=lambda first: {}[first])
    with pytest.raises(ArgumentError, match="unique= could not be made: KeyError: 1"):
        task.call(1)


def test_of_an_open_call_no_text_can_be_made() -> None:
    with pytest.raises(ArgumentError, match=r"still to come; give it by options\(unique=\)"):
        declared(unique=lambda *_: "x").call()
    assert declared(unique=True).call().labels is not None
    assert declared(unique=lambda *_: "x").options(unique="y").call().labels is not None
