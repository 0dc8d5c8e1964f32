"""The shape of a flow, as jobs carry it for people to see: stores forget jobs that are done.

The last job carries that of the whole flow, and can be found from all others. A job that may
outlive it, or that has no room in it, carries that of its neighbours.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

import msgspec

from headrace.core.flow.flow import Node
from headrace.core.job.ids import JobId
from headrace.core.job.parcel import Child
from headrace.core.task.call import SentJob

MOST = 200
"""Jobs of a flow that are shown: those nearest to its end."""
_NEAR = 10
_MOST_BYTES = 16 * 1024
_UNKNOWN = -1
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class GraphJob(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A job in a graph. Parents and names are indexes into the graph."""

    job_id: JobId
    queue: int
    task: int
    parents: tuple[int, ...] = ()


class Graph(msgspec.Struct, array_like=True, frozen=True):
    """Jobs, each before those that wait for it, with all names once."""

    names: tuple[str, ...]
    jobs: tuple[GraphJob, ...]
    complete: bool = True

    def queue(self, spot: GraphJob) -> str:
        return self.names[spot.queue]

    def task(self, spot: GraphJob) -> str | None:
        """The task's name; None for a job sent before the flow."""
        return None if spot.task == _UNKNOWN else self.names[spot.task]

    @property
    def job_ids(self) -> set[JobId]:
        return {spot.job_id for spot in self.jobs}


_Drawn = tuple[Node | SentJob, tuple[int, ...]]
"""A job, and the places of those that it waits for."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Graph).decode


def decode_graph(data: bytes) -> Graph | None:
    """None if there is none, or it cannot be read."""
    try:
        graph = _decode(data) if data else None
    except _UNREADABLE:
        return None
    return graph if graph is None or _is_sound(graph) else None


def _is_sound(graph: Graph) -> bool:
    """Whether each number is that of a name, or of a job before, which is a parent once."""
    count = len(graph.names)
    return len(graph.jobs) <= MOST and all(
        0 <= spot.queue < count
        and _UNKNOWN <= spot.task < count
        and len(spot.parents) <= at
        and all(0 <= parent < at for parent in spot.parents)
        and len(set(spot.parents)) == len(spot.parents)
        for at, spot in enumerate(graph.jobs)
    )


def graph_of_added(job_id: JobId, queue: str, task: str, joins: Sequence[Child]) -> bytes:
    """What a job carries that is added while its flow runs: itself, and those that wait for it."""
    numbers = {queue: 0}
    jobs = [GraphJob(job_id, 0, numbers.setdefault(task, len(numbers)))]
    for join in joins[:_NEAR]:
        there = numbers.setdefault(join.queue, len(numbers))
        jobs.append(GraphJob(join.job_id, there, _UNKNOWN, (0,)))
    return _encode(Graph(tuple(numbers), tuple(jobs), complete=False))


class GraphBuilder:
    """Makes the graphs that the jobs of one flow carry; `last` carries that of the whole flow.
    `nodes` are as `plan` orders them; `outside` has the queues of jobs that were sent before."""

    def __init__(self, nodes: Sequence[Node], last: JobId, outside: Mapping[Any, str]) -> None:
        self._nodes = nodes
        self._last = next(node for node in nodes if node.job_id == last)
        self._outside = outside
        self._whole, most = self._as_much_as_fits()
        self._shown = None if self._last_tells_all(most) else self._leading(most)

    @property
    def end_queue(self) -> str:
        return self._last.call.queue

    def carried_by(self, node: Node) -> bytes:
        """The graph that a job carries, encoded; empty if it needs none."""
        if node is self._last:
            return self._whole
        if self._shown is None or node in self._shown or not (node.children or node.parents):
            return b""
        return self._neighbours(node)

    def _last_tells_all(self, most: int) -> bool:
        """Whether the last job has room for all others, and ends after them."""
        return len(self._nodes) <= most and all(
            node.children or node is self._last for node in self._nodes
        )

    def _leading(self, most: int) -> set[Node]:
        """Those that the last job waits for, itself included, and that are shown with it."""
        leading, found = {self._last}, [self._last]
        while found:
            parents = [parent for parent in found.pop().parents if isinstance(parent, Node)]
            found += (parent for parent in parents if parent not in leading)
            leading.update(parents)
        return leading.intersection(self._nodes[:most])

    def _as_much_as_fits(self) -> tuple[bytes, int]:
        """The graph that the last job carries, and how many jobs of the flow are in it."""
        most = MOST
        while len(data := self._nearest_to_end(most)) > _MOST_BYTES and most > 1:
            most //= 2
        return data, most

    def _nearest_to_end(self, most: int) -> bytes:
        nodes = self._nodes[:most]
        before = dict.fromkeys(
            parent for node in nodes for parent in node.parents if not isinstance(parent, Node)
        )
        shown = [*[*before][: most - len(nodes)], *_first_to_last(nodes)]
        complete = len(self._nodes) + len(before) == len(shown)
        places = {each: at for at, each in enumerate(shown)}
        return self._encoded([(each, _among(each, places)) for each in shown], complete)

    def _neighbours(self, node: Node) -> bytes:
        parents = tuple(islice(node.parents, _NEAR))
        children = [child for child, _ in node.children[:_NEAR]]
        # Without the other parents of the children: there may be thousands.
        drawn: list[_Drawn] = [(parent, ()) for parent in parents]
        drawn.append((node, tuple(range(len(parents)))))
        drawn += [(child, (len(parents),)) for child in children]
        return self._encoded(drawn, complete=False)

    def _encoded(self, drawn: Iterable[_Drawn], complete: bool) -> bytes:
        numbers: dict[str, int] = {}
        jobs: list[GraphJob] = []
        for each, parents in drawn:
            task = _UNKNOWN
            if isinstance(each, Node):
                task = numbers.setdefault(each.call.task, len(numbers))
                queue = numbers.setdefault(each.call.queue, len(numbers))
            else:
                queue = numbers.setdefault(self._outside[each], len(numbers))
            jobs.append(GraphJob(each.job_id, queue, task, parents))
        return _encode(Graph(tuple(numbers), tuple(jobs), complete))


def _first_to_last(nodes: Sequence[Node]) -> list[Node]:
    """The nodes, each before its children, those of equal distance from the end in their order."""
    distances: dict[Node, int] = {}
    for node in nodes:
        children = (distances[child] for child, _ in node.children)
        distances[node] = 1 + max(children, default=0)
    return sorted(nodes, key=lambda node: -distances[node])


def _among(each: Node | SentJob, places: Mapping[Node | SentJob, int]) -> tuple[int, ...]:
    """The places of its parents."""
    parents = each.parents if isinstance(each, Node) else ()
    return tuple(places[parent] for parent in parents if parent in places)
