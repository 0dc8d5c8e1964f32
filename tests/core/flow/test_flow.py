"""Calls are put together to flows: who waits for whom, who is fed by whom, what goes first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headrace import ArgumentError, Call, Headrace, Task, chain, group
from headrace.core.flow.flow import Node, plan
from headrace.errors import ConfigError


@pytest.fixture
def task() -> Task[..., int]:
    return named("a")


def named(name: str, function: Callable[..., int] | None = None) -> Task[..., int]:
    app = Headrace("memory://")

    def total(first: Any, second: int = 2) -> int:
        return int(first) + second

    made: Task[..., int] = app.task(name=name)(function or total)
    return made


def tasks_of(nodes: list[Node]) -> list[str]:
    return [node.call.task for node in nodes]


def node_of(call: Call[Any], nodes: list[Node]) -> Node:
    return next(node for node in nodes if node.call is call)


def test_children_come_before_what_they_wait_for() -> None:
    a, b, c = (named(name).call(1) for name in "abc")
    assert tasks_of(plan(chain(a, b, c))) == ["c", "b", "a"]


def test_a_graph_is_found_from_its_end() -> None:
    x, y, z = (named(name).call(1) for name in "xyz")
    z.after(x, y.after(x))
    nodes = plan(z)
    assert tasks_of(nodes) == ["z", "y", "x"]
    assert [child.call.task for child, _ in nodes[2].children] == ["z", "y"]


def test_what_is_as_far_from_the_end_goes_together() -> None:
    first, last = named("first"), named("last")
    branches = [chain(first.call(n), last.call()) for n in range(3)]
    assert tasks_of(plan(group(branches))) == ["last"] * 3 + ["first"] * 3


def test_a_group_keeps_its_order(task: Task[..., int]) -> None:
    calls = [task.call(n) for n in range(5)]
    join = named("join").call()
    nodes = plan(group(calls).then(join))
    assert [node.call for node in nodes] == [join, *calls]
    assert list(nodes[0].parents) == nodes[1:]


def test_a_chain_gives_one_result_and_a_group_the_list(task: Task[..., int]) -> None:
    a, b, c, d = (task.call() if n else task.call(1) for n in range(4))
    nodes = plan(chain(a, group([b, c]), d))
    assert [node_of(call, nodes).feed for call in (a, b, c, d)] == ["", "one", "one", "list"]


def test_a_call_in_a_chain_that_has_no_room_only_waits() -> None:
    def alone(only: int) -> int:
        return only

    full = named("full", alone).call(5)
    assert node_of(full, plan(chain(named("a").call(1), full))).feed == ""


def test_a_call_in_a_chain_that_has_room_is_fed_before_its_own_arguments() -> None:
    fed = named("b").call(5)
    assert node_of(fed, plan(chain(named("a").call(1), fed))).feed == "one"
    by_name = named("b").call(first=5)
    assert node_of(by_name, plan(chain(named("a").call(1), by_name))).feed == ""


def test_a_default_makes_room_for_a_result_unless_the_first_argument_has_a_name() -> None:
    def invoice(order: int, sku: str, note: str = "") -> int:
        return order

    task, first = named("invoice", invoice), named("a").call(1)
    moved, by_name = task.call(1, "s"), task.call(order=1, sku="s")
    half, full, after = task.call(1, sku="s"), task.call(1, "s", ""), task.call(1, "s")
    nodes = plan(chain(first, group([moved, by_name, half, full])))
    assert node_of(moved, nodes).feed == "one"
    assert not any(node_of(call, nodes).feed for call in (by_name, half, full))
    assert node_of(after, plan(after.after(named("b").call(1)))).feed == ""


def test_after_feeds_only_what_is_open(task: Task[..., int]) -> None:
    x, y = task.call(1), task.call(2)
    closed, one, many = task.call(3).after(x), task.call().after(x), task.call().after(x, y)
    nodes = plan(group([closed, one, many]))
    assert [node_of(call, nodes).feed for call in (closed, one, many)] == ["", "one", "list"]


def test_after_a_group_an_open_call_is_given_the_list(task: Task[..., int]) -> None:
    join = task.call().after(group([task.call(1)]))
    assert plan(join)[0].feed == "list"


def test_the_same_parent_twice_is_one_parent(task: Task[..., int]) -> None:
    x = task.call(1)
    fed = task.call().after(x, x).after(x, if_failed="run")
    (node, parent) = plan(fed)
    assert (node.parents, node.feed) == ({parent: True}, "one")


def test_each_parent_has_its_own_say_in_failure(task: Task[..., int]) -> None:
    x, y = task.call(1), task.call(2)
    z = task.call(3).after(x).after(y, if_failed="run")
    nodes = plan(z)
    assert nodes[0].parents == {node_of(x, nodes): False, node_of(y, nodes): True}
    assert [runs for _, runs in node_of(y, nodes).children] == [True]


def test_a_chain_of_chains_is_a_chain(task: Task[..., int]) -> None:
    a, b, c, d = (task.call() if n else task.call(1) for n in range(4))
    nodes = plan(chain(chain(a, b), chain(c, d)))
    assert [node.call for node in nodes] == [d, c, b, a]
    assert node_of(c, nodes).parents == {node_of(b, nodes): False}


def test_a_long_chain_needs_no_deep_stack(task: Task[..., int]) -> None:
    calls = [task.call(n) for n in range(5_000)]
    assert len(plan(chain(*calls))) == 5_000


def test_a_circle_is_refused_with_the_tasks_on_it() -> None:
    start, a, b, c = (named(name).call(1) for name in ("start", "a", "b", "c"))
    a.after(start, c)
    b.after(a)
    c.after(b)
    with pytest.raises(ConfigError, match=r"circle: '[abc]' → '[abc]' → '[abc]' → '[abc]'$"):
        plan(named("end").call(1).after(b))


def test_a_call_after_itself_is_a_circle(task: Task[..., int]) -> None:
    x = task.call(1)
    with pytest.raises(ConfigError, match="'a' → 'a'"):
        plan(x.after(x))
    y = task.call(1)
    with pytest.raises(ConfigError, match="circle"):
        plan(chain(y, task.call(), y))


def test_an_open_call_that_nothing_feeds_is_refused(task: Task[..., int]) -> None:
    with pytest.raises(ArgumentError, match="first argument is missing"):
        plan(task.call())
    with pytest.raises(ArgumentError, match="first argument is missing"):
        task.call().parcel()
    with pytest.raises(ArgumentError, match="first argument is missing"):
        plan(chain(task.call(), task.call()))


def test_a_call_has_one_place_in_chains(task: Task[..., int]) -> None:
    last = task.call()
    chain(task.call(1), last)
    with pytest.raises(ConfigError, match="already"):
        chain(task.call(2), last)


def test_a_call_that_waits_is_not_sent_alone(task: Task[..., int]) -> None:
    with pytest.raises(ConfigError, match="waits for others"):
        task.call(1).after(task.call(2)).parcel()


def test_the_results_of_a_group_cannot_be_mixed_with_others(task: Task[..., int]) -> None:
    x = task.call(1)
    with pytest.raises(ConfigError, match="results of a group"):
        plan(task.call().after(group([task.call(1), task.call(2)]), x))
    with pytest.raises(ConfigError, match="results of a group"):
        plan(group([task.call(1)]).then(task.call().after(x)))
    assert len(plan(task.call(5).after(group([task.call(1), task.call(2)]), x))) == 4


@pytest.mark.parametrize("parent", [5, None, "job", object(), named])
def test_after_takes_calls_flows_and_jobs(parent: Any, task: Task[..., int]) -> None:
    with pytest.raises(ConfigError, match="not after"):
        task.call(1).after(parent)


def test_what_to_do_after_a_failure_is_checked(task: Task[..., int]) -> None:
    with pytest.raises(ConfigError, match="if_failed"):
        task.call(1).after(task.call(2), if_failed="ignore")  # type: ignore[arg-type]


def test_flows_of_nothing_are_refused() -> None:
    with pytest.raises(ConfigError, match="chain"):
        chain()
    with pytest.raises(ConfigError, match="group"):
        group([])


def test_flows_are_made_of_calls(task: Task[..., int]) -> None:
    with pytest.raises(ConfigError, match=r"chain\(\) takes calls"):
        chain(task)  # type: ignore[call-overload]
    with pytest.raises(ConfigError, match=r"group\(\) takes calls"):
        group([task])  # type: ignore[arg-type]


def test_the_same_call_twice_in_a_group_is_refused(task: Task[..., int]) -> None:
    call = task.call(1)
    with pytest.raises(ConfigError, match="twice"):
        group([call, call])


def test_a_group_in_a_group_is_refused(task: Task[..., int]) -> None:
    with pytest.raises(ConfigError, match="group in a group"):
        group([group([task.call(1)])])
    assert group([group([task.call(1)]).then(task.call())]).gives_list


def test_two_calls_with_one_id_are_refused(task: Task[..., int]) -> None:
    one = task.options(id="one")
    with pytest.raises(ConfigError, match="'one'"):
        plan(group([one.call(1), one.call(2)]))
