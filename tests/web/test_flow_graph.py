"""Flows as drawings."""

from __future__ import annotations

from headrace import State
from headrace.admin.jobs.flows import FlowInfo, FlowJobInfo
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
