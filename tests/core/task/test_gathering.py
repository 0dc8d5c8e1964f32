"""Which jobs of a batch task gather, under what key, and how long the first one waits."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from headrace import ArgumentError, Headrace, Task
from headrace.core.job.constraints import MAX_GATHERED, Gathering
from headrace.core.task.gathering import TaskGathering, key_maker
from headrace.core.task.options import BATCH_WAIT, TaskOptions
from headrace.errors import ConfigError


@dataclass
class Order:
    shop: int
    town: str = "Ulm"

    @property
    def label(self) -> str:
        return f"{self.shop}/{self.town}"


class Rush(Order):
    pass


class Part(msgspec.Struct):
    name: str


def options(**given: Any) -> TaskOptions:
    return TaskOptions.of({"name": "pack", "run_in": "thread", **given})


def declared(app: Headrace | None = None, **given: Any) -> Task[..., Any]:
    def pack(orders: list[Order]) -> None: ...

    made: Task[..., Any] = (app or Headrace("memory://")).task(batch=50, **given)(pack)
    return made


def gathering(task: Task[..., Any], shop: int = 7) -> Gathering:
    found = task.call(Order(shop)).parcel().constraints
    assert found.gathering is not None
    return found.gathering


def test_a_batch_gathers_only_if_its_task_says_so() -> None:
    assert options(batch=50).gathering is None
    assert options(batch=50, batch_key="shop").gathering == TaskGathering("shop")
    assert options(batch=50, grace=0.2).gathering == TaskGathering(None, 200)


@pytest.mark.parametrize("given", [{"batch_key": "shop"}, {"grace": 1}])
def test_what_gathers_is_a_batch(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"'pack': {next(iter(given))} needs batch="):
        options(**given)


@pytest.mark.parametrize("key", ["", 5, True, ["shop"]])
def test_a_key_is_a_name_or_a_function(key: object) -> None:
    with pytest.raises(ConfigError, match="'pack': batch_key must be a function of the item"):
        options(batch=50, batch_key=key)


@pytest.mark.parametrize("grace", [0, -1, "1", True, float("nan")])
def test_a_grace_is_a_time(grace: object) -> None:
    with pytest.raises(ConfigError, match=r"'pack': grace\b"):
        options(batch=50, grace=grace)


@pytest.mark.parametrize("given", [{"concurrency": 2}, {"key_concurrency": 2}, {"rate": "5/s"}])
@pytest.mark.parametrize("gathers", [{"batch_key": "shop"}, {"grace": 1}])
def test_what_counts_single_jobs_does_not_go_with_a_batch_that_gathers(
    given: dict[str, Any], gathers: dict[str, Any]
) -> None:
    with pytest.raises(ConfigError, match=f"'pack': {next(iter(given))} does not go with"):
        options(batch=50, **given, **gathers)
    assert options(batch=50, **given).gathering is None


def test_the_first_job_waits_as_declared_or_by_the_grace_or_as_in_any_batch() -> None:
    def max_wait(**given: Any) -> float:
        return options(batch=50, **given).max_wait

    assert max_wait(grace=2, max_wait=3) == 3
    assert max_wait(grace=2, max_wait=timedelta(seconds=5)) == 5
    assert max_wait(grace=2) == 20
    assert max_wait(batch_key="shop") == BATCH_WAIT
    assert max_wait(batch_key="shop", max_wait=0.1) == 0.1


@pytest.mark.parametrize("max_wait", [1, 2, timedelta(seconds=2)])
def test_a_grace_that_never_ends_before_the_wait_is_refused(max_wait: object) -> None:
    with pytest.raises(ConfigError, match="'pack': a grace of 2 s never ends before max_wait"):
        options(batch=50, grace=2, max_wait=max_wait)


def test_a_batch_that_gathers_is_as_large_as_a_store_can_move_in_one_step() -> None:
    assert options(batch=MAX_GATHERED, grace=1).batch == MAX_GATHERED
    with pytest.raises(ConfigError, match=r"'pack': batch must be at most 1,000 .* not 1,001"):
        options(batch=MAX_GATHERED + 1, grace=1)
    assert options(batch=MAX_GATHERED + 1).gathering is None


def test_a_key_by_function_is_that_function() -> None:
    assert key_maker("", str, "order", Order) is str


@pytest.mark.parametrize(
    ("key", "kind", "item", "text"),
    [
        ("shop", Order, Order(7), "7"),
        ("town", Order, Order(7), "Ulm"),
        ("label", Order, Order(7), "7/Ulm"),
        ("shop", Rush, Rush(8), "8"),
        ("name", Part, Part("bolt"), "bolt"),
        ("shop", dict, {"shop": 9}, "9"),
        ("shop", dict[str, int], {"shop": 9}, "9"),
        ("shop", Order | Part, Order(7), "7"),
        ("order", str, "a", "a"),
        ("order", int, 12, "12"),
    ],
)
def test_a_key_by_name_is_the_item_or_a_field_of_it(
    key: str, kind: Any, item: object, text: str
) -> None:
    assert key_maker("", key, "order", kind)(item) == text


def test_a_name_that_the_item_does_not_have_is_refused_where_it_is_declared() -> None:
    with pytest.raises(ConfigError, match=r"'pack': batch_key: Order has no 'street'.*'orders'"):
        declared(batch_key="street")


@pytest.mark.parametrize("item", [True, None, 1.5])
def test_what_is_neither_text_nor_a_number_is_no_key(item: object) -> None:
    assert key_maker("", "item", "item", Any)(item) is item
    task = declared(batch_key=lambda order: item)
    with pytest.raises(ArgumentError, match=r"'pack'.*what batch_key= returned"):
        task.call(Order(7))


def test_jobs_gather_with_those_of_their_task_and_key() -> None:
    task = declared(batch_key="shop", grace=1, max_wait=4)
    assert gathering(task) == Gathering("batch:pack:7", 50, 4_000, 1_000)
    assert gathering(task, 8).name == "batch:pack:8"
    assert gathering(task.options(batch_key="all"), 8).name == "batch:pack:all"


def test_without_a_key_all_jobs_of_a_task_gather() -> None:
    assert gathering(declared(grace=1)) == Gathering("batch:pack", 50, 10_000, 1_000)
    named = declared(grace=1, name="shop:pack:7")
    assert gathering(named).name == "batch:shop%3Apack%3A7"


def test_a_key_that_cannot_be_made_fails_the_call() -> None:
    task = declared(batch_key=lambda order: order["shop"])
    with pytest.raises(ArgumentError, match=r"'pack'.*batch_key= could not be made: TypeError"):
        task.call(Order(7))


def test_the_key_of_an_item_that_is_still_to_come_is_given_by_the_call() -> None:
    task = declared(batch_key="shop")
    with pytest.raises(ArgumentError, match=r"still to come; give it by options\(batch_key=\)"):
        task.call()
    labels = task.options(batch_key="7").call().labels
    assert labels is not None
    assert labels.batch_key == "7"


def test_a_job_that_is_unique_gathers_too() -> None:
    sent = declared(batch_key="shop", unique=lambda order: order.label).call(Order(7)).parcel()
    assert sent.constraints.unique == "pack:7/Ulm"
    assert sent.constraints.gathers == Gathering("batch:pack:7", 50, 500)


@pytest.mark.parametrize("given", [{}, {"grace": 1}])
def test_the_key_of_a_batch_is_refused_where_the_task_declares_none(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"'pack': options\(batch_key=\) needs a batch_key="):
        declared(**given).options(batch_key="7")


def test_jobs_that_run_one_after_the_other_never_meet_in_a_batch() -> None:
    with pytest.raises(ConfigError, match=r"'pack': options\(key=\) does not go with a batch"):
        declared(grace=1).options(key="x")
    assert declared().options(key="x").call(Order(7)).parcel().constraints.lane == "key:x"


@pytest.mark.parametrize("bound", [{"rate": "5/s"}, {"concurrency": 2}])
def test_a_queue_that_counts_single_jobs_takes_no_batch_that_gathers(bound: Any) -> None:
    app = Headrace("memory://")
    app.queue("mail", **bound)
    app.queue("long", max_length=5)
    task = declared(app, grace=1)
    with pytest.raises(ConfigError, match=f"'pack'.*the {next(iter(bound))} of queue 'mail'"):
        task.options(queue="mail").call(Order(7)).parcel()
    assert gathering(task.options(queue="long")) == gathering(task)


@pytest.mark.parametrize("item", [Any, dict])
def test_a_field_is_looked_for_in_the_item_however_it_is_given(item: Any) -> None:
    make = key_maker("", "shop", "items", item)
    assert make({"shop": 7}) == make(items={"shop": 7}) == "7"
    itself = key_maker("", "items", "items", int)
    assert itself(7) == itself(items=7) == "7"
