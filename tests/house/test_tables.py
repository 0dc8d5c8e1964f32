"""Lists of outcomes, states and kinds: what is added to one of these is in every list of them.

A table that is forgotten would pass over what is new in silence. Where a function asks which
outcome or state it has, `assert_never` says so; these tests are for tables.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from typing import get_args

import pytest

from headrace.admin.stats_sum import FAILED
from headrace.cli import stats
from headrace.client.ends.listener import MOMENTS
from headrace.core.flow import counts
from headrace.core.flow.counts import FlowCounts
from headrace.core.job.outcome import OUTCOMES, WRITTEN
from headrace.core.job.state import ENDED, FINAL, LIVE, State
from headrace.core.job.tally import KINDS
from headrace.exposition import store_families
from headrace.store.history.block import LETTERS
from headrace.store.sqlite.topics import groups
from headrace.store.values import Counts, Kind
from headrace.top import details
from headrace.web.rendering import charts, flow_folding
from headrace.worker import listeners
from tests.house.lua import NAMES, code, source
from tests.house.package import ROOT, modules

STORED = (*LIVE, State.DEAD)
"""What a store keeps whole, and counts."""
GROUPS: list[tuple[object, ...]] = [OUTCOMES, WRITTEN, tuple(State), STORED, LIVE, FINAL, ENDED]
# Tables that say together what one would: `KNOWN` of the same module has all of them.
TOGETHER = {"store.sqlite.jobs.settlement"}


def named(node: ast.expr | None) -> object:
    """The outcome or the state that an expression names."""
    if isinstance(node, ast.Name):
        return {each.__name__: each for each in OUTCOMES}.get(node.id)
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return State.__members__.get(node.attr) if node.value.id == "State" else None
    return None


def tables() -> Iterator[tuple[str, set[object]]]:
    """Each dict with outcomes or states for keys, and each longer list of them, by its place."""
    for module in modules():
        if module.name in TOGETHER or module.name.startswith("testing.conformance"):
            continue
        displays: list[tuple[int, list[ast.expr | None]]] = [
            (node.lineno, node.keys) for node in module.nodes(ast.Dict)
        ]
        for kind in (ast.Tuple, ast.List, ast.Set):
            found = [node for node in module.nodes(kind) if isinstance(node, kind)]
            displays += [(node.lineno, [*node.elts]) for node in found if len(node.elts) > 2]
        for line, parts in displays:
            names = {named(part) for part in parts}
            if names and None not in names:
                yield f"{module.name}:{line}", names


def test_a_list_of_outcomes_or_states_has_all_that_are_alike() -> None:
    found = dict(tables())
    assert len(found) > 8, "no tables are found: are they written in another way?"
    alike = [set(group) for group in GROUPS]
    assert [place for place, names in found.items() if names not in alike] == []


def test_a_state_goes_on_or_is_final() -> None:
    assert {*LIVE, *FINAL} == set(State)
    assert not set(LIVE) & set(FINAL)


def tones() -> list[str]:
    template = (ROOT / "web" / "templates" / "parts.html").read_text()
    found = re.search(r"badge\(state, \{(.*?)\}", template)
    assert found is not None
    return re.findall(r'"(\w+)": ', found[1])


@pytest.mark.parametrize(
    ("names", "states"),
    [
        (Counts.__struct_fields__, STORED),
        (FlowCounts.__struct_fields__, tuple(State)),
        (store_families._STATES, STORED),
        (details._STATES, STORED),
        (groups._ORDERS, LIVE),
        (counts._FURTHEST, LIVE),
        (flow_folding._MOST_URGENT, tuple(State)),
        (tones(), tuple(State)),
    ],
    ids=["counts", "flow", "metrics", "top", "groups", "furthest", "urgent", "tones"],
)
def test_what_is_shown_by_state_has_every_state(
    names: tuple[str, ...], states: tuple[State, ...]
) -> None:
    assert set(names) == {state.value for state in states}


def test_listeners_can_be_called_for_each_moment() -> None:
    called = {moment for moment in listeners._MOMENTS.values() if moment is not None}
    assert called | {"stalled"} == set(MOMENTS)


def test_a_script_knows_what_the_history_keeps() -> None:
    found = re.search(r"states = .*\{(d = .*)\}", source("prelude"))
    assert found is not None
    spelled = dict(re.findall(r"(\w) = '(\w+)'", found[1]))
    assert spelled == {letter.decode(): state.value for state, letter in LETTERS.items()}


# Beside those that outcomes make.
COUNTED = {*KINDS, "sent", "replayed"}


def kinds_in_python() -> set[str]:
    """The kinds of the facts that the SQLite store writes."""
    calls = [
        call
        for module in modules()
        if module.name.startswith("store.sqlite")
        for call in module.nodes(ast.Call)
        if isinstance(call.func, ast.Attribute) and call.func.attr == "record" and call.args
    ]
    first = [call.args[0] for call in calls]
    return {str(node.value) for node in first if isinstance(node, ast.Constant)}


def kinds_in_lua() -> set[str]:
    """The kinds of the facts that scripts write, and of those that they count."""
    text = "\n".join(code(name) for name in [*NAMES, "moving"])
    found = re.search(r"counted = \{(.*)\}", text)
    assert found is not None
    return {*re.findall(r"record_fact\('(\w+)'", text), *re.findall(r"(\w+) = true", found[1])}


@pytest.mark.parametrize("kinds", [lambda: {*KINDS}, kinds_in_python, kinds_in_lua])
def test_a_fact_that_is_written_can_be_read(kinds: Callable[[], set[str]]) -> None:
    written = kinds()
    assert len(written) > 3
    assert written <= set(get_args(Kind))


def test_a_chart_of_failures_has_every_kind_of_failure() -> None:
    assert set(charts._FAILED) == set(FAILED)


def test_headrace_stats_shows_all_that_is_counted_but_for_what_is_no_result() -> None:
    assert COUNTED - set(stats._KINDS) == {"held", "released", "replayed"}
    assert set(stats._KINDS) <= COUNTED
