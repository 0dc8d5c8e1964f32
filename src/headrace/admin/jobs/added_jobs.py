"""Jobs that were added to a flow while it ran: the graph that its last job carries lacks them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import msgspec

from headrace.admin.bodies import opened
from headrace.core.flow.graph import Graph, GraphJob, decode_graph
from headrace.core.job.envelope import Envelope
from headrace.core.job.ids import JobId

if TYPE_CHECKING:
    from headrace.store.contract import Store
    from headrace.store.flow_values import FlowPart

MOST_ADDED = 100
_PAGES, _IN_A_PAGE = 10, 100

Added = tuple[JobId, str, Envelope]
"""A job, its queue, and what it carries."""


async def with_added(store: Store, graph: Graph, flow: JobId) -> Graph:
    """The graph with the jobs that were added to it, as far as the store still knows them. One call
    for each queue, and a few more for those in which jobs were added."""
    if not graph.complete:
        return graph
    queues = dict.fromkeys(graph.queue(job) for job in graph.jobs)
    asked, found, missing = list(queues), list[Added](), 0
    for queue in asked:
        part = await store.flow_part(queue, flow, members=True)
        asked += (each for each in part.queues if each not in asked)
        own = sum(graph.queue(job) == queue and graph.task(job) is not None for job in graph.jobs)
        count = part.counts.total - own
        if count > 0:
            here = await _added_in(store, queue, flow, part, graph.job_ids, count)
            found += here
            missing += count - len(here)
    shown = found[:MOST_ADDED]
    return _joined(graph, shown, complete=not missing and len(shown) == len(found))


async def _added_in(
    store: Store, queue: str, flow: JobId, part: FlowPart, known: Collection[JobId], count: int
) -> list[Added]:
    live = [id for id in (*part.live, *part.failed) if id not in known][:MOST_ADDED]
    seen = await store.get(queue, live, bodies=True) if live else []
    bodies = {id: job.envelope for id, job in zip(live, seen, strict=True) if job is not None}
    cursor, pages = "", _PAGES
    while len(bodies) < min(count, MOST_ADDED) and pages:
        page = await store.history(queue, cursor, _IN_A_PAGE)
        bodies |= {job.job_id: job.envelope for job in page.jobs if job.job_id not in known}
        bodies = {id: data for id, data in bodies.items() if _is_of(flow, data)}
        cursor, pages = page.cursor, pages - 1 if page.cursor else 0
    opened_ones = ((id, opened(data)) for id, data in bodies.items())
    return [(id, queue, envelope) for id, envelope in opened_ones if envelope is not None]


def _is_of(flow: JobId, data: bytes) -> bool:
    envelope = opened(data)
    return envelope is not None and envelope.overrides.flow == flow


def _joined(graph: Graph, added: Sequence[Added], *, complete: bool) -> Graph:
    """The graph with more jobs before all others, and with what waits for them."""
    if not added:
        return graph if complete else msgspec.structs.replace(graph, complete=False)
    names = {name: at for at, name in enumerate(graph.names)}
    first: list[GraphJob] = []
    waits: dict[JobId, list[int]] = {}
    for at, (id, queue, envelope) in enumerate(added):
        queue_number = names.setdefault(queue, len(names))
        first.append(GraphJob(id, queue_number, names.setdefault(envelope.task, len(names))))
        around = decode_graph(envelope.overrides.graph)
        for join in around.jobs if around is not None else ():
            waits.setdefault(join.job_id, []).append(at)
    jobs = [
        msgspec.structs.replace(
            job,
            parents=(*(each + len(first) for each in job.parents), *waits.get(job.job_id, ())),
        )
        for job in graph.jobs
    ]
    return Graph(tuple(names), (*first, *jobs), complete)
