"""Writes one flow into the store."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from headrace.client.job import Job
from headrace.client.send.coalescer import BATCH, BATCH_BYTES
from headrace.client.send.offloading import put
from headrace.client.send.tries import retry_while_unavailable
from headrace.client.session import ClientSession
from headrace.core.confirming import UNCONFIRMED, all_of
from headrace.core.flow.flow import Node
from headrace.core.flow.graph import GraphBuilder
from headrace.core.job import ids
from headrace.core.job.ids import JobId
from headrace.core.job.parcel import Child, FlowMembership, Parcel
from headrace.errors import HeadraceError, QueueFull
from headrace.store.values import Arrival

_FOLLOW_TOGETHER = 100


class FlowWriter:
    """Appends the jobs of a flow, children first, in bounded batches by queue. A job that ends must
    find those that wait for it."""

    def __init__(self, session: ClientSession, flow: JobId, now_ms: int) -> None:
        self._store = session.store
        self._sender = session.sender
        self._flow = flow
        self._now_ms = now_ms
        self._batches: dict[str, _QueueBatch] = {}
        self._stored: set[Node] = set()
        self._confirm = UNCONFIRMED
        self._to_begin = set[str]()
        """Queues in which a flow of the same id may have run before."""
        self._graph: GraphBuilder
        self._known: list[Node] = []
        """Jobs with an id that the store knew already."""

    async def send(self, nodes: Sequence[Node], outside: dict[Job[Any], str]) -> JobId | None:
        """Store all jobs. If the unique name of the last one is taken, returns the job that has it,
        and sends nothing more."""
        self._graph = GraphBuilder(nodes, self._flow, outside)
        # All or none of it: a flow whose first jobs are lost waits for ever.
        self._confirm = all_of(node.call.options.confirm for node in nodes)
        if ids.created_ms(self._flow) is None:
            self._to_begin.update(node.call.queue for node in nodes)
        try:
            self._check_fit(nodes)
            for node in nodes:
                if is_unique(node):
                    standing = await self._send_unique(node)
                    if standing is not None:
                        return standing
                else:
                    await self._add(node)
            for queue in list(self._batches):
                await self._flush(queue)
            await self._follow(nodes, outside)
        except QueueFull as error:
            await self._undo()
            raise error.of_flow(sum(node.call.queue == error.queue for node in nodes)) from None
        except BaseException:
            await self._undo()
            raise
        return None

    def _check_fit(self, nodes: Sequence[Node]) -> None:
        """Refuse a flow that its queues can never hold. Jobs that may be there already need no
        room."""
        new: dict[str, list[JobId]] = {}
        for node in nodes:
            if node.call.options.id is None and not is_unique(node):
                new.setdefault(node.call.queue, []).append(node.job_id)
        for queue, job_ids in new.items():
            self._sender.check_fits(queue, job_ids)

    async def _send_unique(self, node: Node) -> JobId | None:
        custom_ids = node.call.options.id is not None
        self._stored.add(node)
        parcels = await self._outside([node], self._parcels(node.call.queue, [node]))
        instead = await self._sender.send_now(
            node.call.queue, parcels, custom_ids=custom_ids, confirm=self._confirm
        )
        if instead and instead[0] != node.job_id:
            return instead[0]
        self._known += [node] if instead else []
        return None

    async def _add(self, node: Node) -> None:
        queue = node.call.queue
        for child, _ in node.children:
            if child.call.queue != queue and child not in self._stored:
                await self._flush(child.call.queue)
        batch = self._batches.setdefault(queue, _QueueBatch())
        batch.add(node)
        if batch.full:
            await self._flush(queue)

    async def _flush(self, queue: str) -> None:
        batch = self._batches.pop(queue, None)
        if batch is None:
            return
        parcels = await self._outside(batch.nodes, self._parcels(queue, batch.nodes))
        custom_ids = any(node.call.options.id is not None for node in batch.nodes)
        self._stored.update(batch.nodes)
        instead = await self._sender.send_now(
            queue, parcels, custom_ids=custom_ids, confirm=self._confirm
        )
        self._known += [batch.nodes[position] for position in instead]

    async def _outside(self, nodes: Sequence[Node], parcels: list[Parcel]) -> list[Parcel]:
        """The parcels with large payloads kept outside of the store, where tasks say so."""
        for at, node in enumerate(nodes):
            packer = node.call.packer
            if packer is not None and packer.offload is not None:
                parcels[at] = await put(packer.offload, parcels[at], packer.most)
        return parcels

    def _parcels(self, queue: str, nodes: Sequence[Node]) -> list[Parcel]:
        begins = queue in self._to_begin
        self._to_begin.discard(queue)
        return [self._parcel(node, begins) for node in nodes]

    def _parcel(self, node: Node, begins: bool) -> Parcel:
        parents = tuple(parent.job_id for parent in node.parents)
        membership = FlowMembership(
            node.job_id,
            self._flow,
            node.feed,
            parents,
            tuple(_children(node)),
            self._graph.end_queue,
            self._graph.carried_by(node),
            begins,
        )
        return node.call.parcel(self._now_ms, membership)

    async def _follow(self, nodes: Sequence[Node], outside: dict[Job[Any], str]) -> None:
        """Link the jobs to parents that were in the store before."""
        followed: dict[tuple[str, JobId], list[Child]] = {
            (node.call.queue, node.job_id): list(_children(node))
            for node in self._known
            if node.children
        }
        for node in nodes:
            for parent, runs_anyway in node.parents.items():
                if isinstance(parent, Job):
                    child = Child(node.call.queue, node.job_id, runs_anyway)
                    followed.setdefault((outside[parent], parent.job_id), []).append(child)
        todo = list(followed.items())
        for at in range(0, len(todo), _FOLLOW_TOGETHER):
            together = todo[at : at + _FOLLOW_TOGETHER]
            await asyncio.gather(
                *(self._follow_one(*place, children) for place, children in together)
            )

    async def _follow_one(self, queue: str, parent: JobId, children: list[Child]) -> None:
        ending = await retry_while_unavailable(partial(self._store.follow, queue, parent, children))
        if ending is None:
            return
        arrivals: dict[str, list[Arrival]] = {}
        for child in children:
            arrivals.setdefault(child.queue, []).append(
                Arrival(child.job_id, parent, ending, child.runs_anyway)
            )
        for there, batch in arrivals.items():
            await retry_while_unavailable(partial(self._store.arrive, there, batch))

    async def _undo(self) -> None:
        """Cancel the stored jobs of a flow that could not be sent as a whole, except jobs whose id
        the caller chose: they may have existed before, and sending again completes them."""
        left: dict[str, list[JobId]] = {}
        for node in self._stored:
            if node.call.options.id is None:
                left.setdefault(node.call.queue, []).append(node.job_id)
        for queue, job_ids in left.items():
            for at in range(0, len(job_ids), BATCH):
                try:
                    await self._store.cancel(queue, job_ids[at : at + BATCH])
                except HeadraceError:
                    # The error that led here is raised, and says more.
                    return


class _QueueBatch:
    """Jobs of one queue that go together in the next append."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self._size = 0

    def add(self, node: Node) -> None:
        self.nodes.append(node)
        self._size += len(node.call.payload) + 40 * len(node.parents) + 80 * len(node.children)

    @property
    def full(self) -> bool:
        return len(self.nodes) >= BATCH or self._size > BATCH_BYTES


def is_unique(node: Node) -> bool:
    """Whether another job may stand for that of the node."""
    return node.call.labels is not None and bool(node.call.labels.unique)


def _children(node: Node) -> Iterator[Child]:
    for child, runs_anyway in node.children:
        yield Child(child.call.queue, child.job_id, runs_anyway)
