"""Flows as drawings."""

from __future__ import annotations

from headrace import State
from headrace.admin.jobs.flow_survey import FlowInfo, FlowJobInfo
from headrace.web.rendering.flow_graph import MOST_DRAWN, draw_flow


def job_in_flow(id: str, *parents: str) -> FlowJobInfo:
    return FlowJobInfo(id, "default", id, State.WAITING, parents, ())


def test_every_job_stands_right_of_those_that_it_waits_for() -> None:
    jobs = [job_in_flow("a"), job_in_flow("b", "a"), job_in_flow("c"), job_in_flow("d", "b", "c")]
    graph = draw_flow(FlowInfo("d", tuple(jobs), complete=True))
    at = {node.job.id: node for node in graph.nodes}
    for job in jobs:
        assert all(at[parent].x < at[job.id].x for parent in job.parents)
    assert at["c"].x == at["b"].x, "no further away than it has to be"
    assert len({(node.x, node.y) for node in graph.nodes}) == 4
    assert all(node.x < graph.width and node.y < graph.height for node in graph.nodes)


def test_a_flow_of_any_shape_is_drawn_up_to_a_bound() -> None:
    many = [job_in_flow(f"{n}", *(f"{m}" for m in range(n - 3, n))) for n in range(300)]
    graph = draw_flow(FlowInfo("299", tuple(many), complete=True))
    assert (len(graph.nodes), graph.more) == (MOST_DRAWN, 100)
    circle = (job_in_flow("a", "b"), job_in_flow("b", "a"))
    assert len(draw_flow(FlowInfo("a", circle, complete=True)).nodes) == 2


TIMES = "\N{MULTIPLICATION SIGN}"


def in_state(id: str, task: str, state: State, *parents: str) -> FlowJobInfo:
    return FlowJobInfo(id, "default", task, state, parents, ())


def test_jobs_that_stand_alike_are_one_box_with_counts() -> None:
    loads = [in_state(f"l{n}", "load", State.DONE) for n in range(60)]
    loads[7] = in_state("l7", "load", State.DEAD)
    sizes = [in_state(f"s{n}", "resize", State.BLOCKED, f"l{n}") for n in range(60)]
    join = in_state("join", "join", State.BLOCKED, *(f"s{n}" for n in range(60)))
    flow = FlowInfo("join", (*loads, *sizes, join), complete=True)
    graph = draw_flow(flow)
    assert [node.label for node in graph.nodes] == [
        f"60 {TIMES} load", f"60 {TIMES} resize", "join",
    ]  # fmt: skip
    assert [node.state for node in graph.nodes] == ["1 dead, 59 done", "60 blocked", "blocked"]
    assert graph.nodes[0].job.id == "l7", "leads to the one that failed"
    assert (len(graph.edges), graph.more) == (2, 0)


def test_jobs_that_stand_otherwise_or_are_few_are_drawn_one_by_one() -> None:
    few = [in_state(f"a{n}", "load", State.DONE) for n in range(3)]
    join = in_state("join", "join", State.BLOCKED, "a0", "a1", "a2", *(f"b{n}" for n in range(4)))
    others = [in_state(f"b{n}", "load", State.DONE, f"p{n}") for n in range(4)]
    before = [in_state(f"p{n}", f"task-{n}", State.DONE) for n in range(4)]
    graph = draw_flow(FlowInfo("join", (*few, *before, *others, join), complete=True))
    assert len(graph.nodes) == 12


def test_ten_thousand_jobs_are_folded() -> None:
    many = [in_state(f"{n}", "load", State.DONE) for n in range(10_000)]
    join = in_state("join", "join", State.BLOCKED, *(job.id for job in many))
    graph = draw_flow(FlowInfo("join", (*many, join), complete=True))
    assert [node.label for node in graph.nodes] == [f"10,000 {TIMES} load", "join"]
