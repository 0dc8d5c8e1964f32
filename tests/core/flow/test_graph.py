"""The shape of a flow, as its jobs carry it."""

from __future__ import annotations

import msgspec
import pytest

from headrace import Headrace, chain, group
from headrace.core.flow.flow import Node, plan
from headrace.core.flow.graph import (
    MOST,
    Graph,
    GraphBuilder,
    GraphJob,
    decode_graph,
    graph_of_added,
)
from headrace.core.job.ids import JobId
from headrace.core.job.parcel import Child
from headrace.core.task.call import Call


class Sent:
    """The handle of a job that was sent before."""

    def __init__(self, job_id: JobId) -> None:
        self.job_id = job_id


def call(task: str, queue: str = "default") -> Call[None]:
    return Call(task, queue, b"\x90", None)


def shown(graph: Graph | None) -> list[tuple[str | None, str, tuple[int, ...]]]:
    """Task, queue and parents of each job."""
    assert graph is not None
    return [(graph.task(spot), graph.queue(spot), spot.parents) for spot in graph.jobs]


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


def test_the_last_job_shows_tasks_queues_and_what_waits_for_what() -> None:
    left, right = call("fetch"), call("count", "slow")
    nodes = plan(call("report").after(left, right))
    drawing = GraphBuilder(nodes, nodes[0].job_id, {})
    whole = carried(drawing, nodes[0])
    assert sorted(shown(whole)[:2]) == [("count", "slow", ()), ("fetch", "default", ())]
    assert shown(whole)[2] == ("report", "default", (0, 1))
    assert drawing.end_queue == "default"
    assert [drawing.carried_by(node) for node in nodes[1:]] == [b"", b""]


def test_a_job_that_was_sent_before_is_shown_by_its_queue_alone() -> None:
    before = Sent(b"before")
    nodes = plan(call("report", "slow").after(before))
    whole = carried(GraphBuilder(nodes, nodes[0].job_id, {before: "early"}), nodes[0])
    assert shown(whole) == [(None, "early", ()), ("report", "slow", (0,))]
    assert whole is not None
    assert whole.complete
    assert whole.job_ids == {b"before", nodes[0].job_id}


def test_a_job_that_is_added_carries_itself_and_those_that_wait_for_it() -> None:
    joins = [Child("slow", b"join-1"), Child("default", b"join-2")]
    graph = decode_graph(graph_of_added(b"added", "default", "work", joins))
    assert shown(graph) == [
        ("work", "default", ()),
        (None, "slow", (0,)),
        (None, "default", (0,)),
    ]
    assert graph is not None
    assert not graph.complete
    assert graph.job_ids == {b"added", b"join-1", b"join-2"}


def test_a_job_that_is_added_carries_only_some_of_many_that_wait_for_it() -> None:
    joins = [Child("slow", b"join-%d" % number) for number in range(500)]
    graph = decode_graph(graph_of_added(b"added", "default", "work", joins))
    assert graph is not None
    assert [spot.job_id for spot in graph.jobs] == [
        b"added",
        *(b"join-%d" % number for number in range(10)),
    ]


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x90", b"\xa3abc", b"\x92\x91\xa1\xff\x90"])
def test_bytes_that_are_no_graph_show_none(data: bytes) -> None:
    assert decode_graph(data) is None


@pytest.mark.parametrize(
    "jobs",
    [
        [GraphJob(b"a", 1, 0)],
        [GraphJob(b"a", -1, 0)],
        [GraphJob(b"a", 0, 1)],
        [GraphJob(b"a", 0, -2)],
        [GraphJob(b"a", 0, 0, (0,))],
        [GraphJob(b"a", 0, 0), GraphJob(b"b", 0, 0, (-1,))],
        [GraphJob(b"%d" % number, 0, 0) for number in range(MOST + 1)],
    ],
)
def test_a_graph_whose_numbers_lead_nowhere_is_none(jobs: list[GraphJob]) -> None:
    sound = Graph(("work",), (GraphJob(b"a", 0, -1), GraphJob(b"b", 0, 0, (0,))))
    assert decode_graph(msgspec.msgpack.encode(sound)) == sound
    assert decode_graph(msgspec.msgpack.encode(Graph(("work",), tuple(jobs)))) is None
