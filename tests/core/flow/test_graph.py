"""The shape of a flow, as its jobs carry it."""

from __future__ import annotations

import pytest

from headrace import Headrace, chain, group
from headrace.core.flow.flow import Node, plan
from headrace.core.flow.graph import Graph, GraphBuilder, decode_graph
from headrace.core.task.call import Call


def carried(drawing: GraphBuilder, node: Node) -> Graph | None:
    return decode_graph(drawing.carried_by(node))


@pytest.mark.parametrize("long", ["", "n" * 200], ids=["fits", "is cut"])
def test_a_job_is_in_the_graph_of_the_last_one_or_carries_that_of_its_neighbours(long: str) -> None:
    app = Headrace("memory://")

    @app.task
    async def work(number: int) -> None: ...

    def named(number: int) -> Call[None]:
        return work.options(id=f"{long}{number}").call(number)

    last, *others = plan(chain(group(named(number) for number in range(150)), named(150)))
    drawing = GraphBuilder([last, *others], last.job_id, {})
    whole = carried(drawing, last)
    assert whole is not None
    assert whole.complete is not bool(long)
    for node in others:
        own = carried(drawing, node)
        assert (own is None) is (node.job_id in whole.job_ids)
        assert own is None or own.job_ids == {node.job_id, last.job_id}
