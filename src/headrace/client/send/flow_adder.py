"""Adds jobs to a flow while it runs: what `ctx.flow` is."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from headrace.client.send.outgoing import Outgoing, OutgoingApp
from headrace.client.send.tries import retry_while_unavailable
from headrace.core.flow.graph import graph_of_added
from headrace.core.job import ids
from headrace.core.job.envelope import Overrides, decode_envelope
from headrace.core.job.parcel import Child, FlowMembership
from headrace.core.task.call import Call
from headrace.errors import ConfigError, HeadraceError, JobNotFound
from headrace.store.flow_values import Addition

if TYPE_CHECKING:
    from headrace.client.job import Job
    from headrace.core.job.ids import JobId
    from headrace.store.contract import Store

R = TypeVar("R")


class FlowApp(OutgoingApp, Protocol):
    """What adding needs of an app."""

    @property
    def outgoing(self) -> Outgoing: ...


class FlowAdder:
    """The flow of the running job."""

    def __init__(self, job: Job[Any]) -> None:
        self._job = job
        self._app = cast("FlowApp", job._app)
        self._added: Counter[bytes] = Counter()
        self._place: Overrides | None = None

    async def add(self, call: Call[R]) -> Job[R]:
        """Send one more job of the flow. Those that wait for the running job wait for it too; a job
        that takes a list receives its result after those that it waits for already. A later
        attempt of the running job that adds the same call again adds it once. If the running job
        dies before this has returned, and does not add the call again, the call does not count."""
        call = await self._checked(call)
        store = (await self._app.session()).store
        place = await self._membership(store)
        job_id = self._id_of(call)
        queue = await self._job._found_queue()
        extend = partial(store.extend_flow, queue, self._job.job_id, place.flow, call.queue)
        waiting = await retry_while_unavailable(extend)
        joins = await self._announce(store, waiting, job_id)
        if joins is not None:
            await self._send(call, job_id, place.flow, place.end_queue or queue, joins)
            for there, additions in self._additions(joins, job_id).items():
                confirm = partial(store.confirm_parents, there, additions)
                await retry_while_unavailable(confirm)
        return cast("Job[R]", self._app.outgoing.job(call, job_id))

    def add_sync(self, call: Call[R]) -> Job[R]:
        """`add` for tasks without an event loop."""
        return self._app.portal.run(self.add(call))

    async def _checked(self, call: Call[R]) -> Call[R]:
        given: object = call
        if not isinstance(given, Call) or call.links is not None:
            raise ConfigError(
                f"ctx.flow.add() takes a single call, like task.call(…), not {call!r}"
            )
        if call.labels is not None and call.labels.unique:
            raise ConfigError(f"{call!r} is unique, which a call in a flow cannot be")
        call._alone()
        through = self._app.outgoing.flow_call_sending
        if through is None:
            return call
        sent: list[Call[Any]] = []

        async def note(changed: Call[Any]) -> Job[Any]:
            sent.append(changed)
            return self._app.outgoing.job(changed, call.new_id())

        await through(note)(call)
        if len(sent) != 1:
            raise ConfigError(f"{call!r} is part of a flow: a middleware must send it once")
        return sent[0]

    async def _membership(self, store: Store) -> Overrides:
        if self._place is None:
            queue = await self._job._found_queue()
            (seen,) = await store.get(queue, [self._job.job_id], bodies=True)
            if seen is None:
                raise JobNotFound(self._job.id)
            self._place = decode_envelope(seen.envelope).overrides
        if not self._place.flow:
            raise ConfigError(f"job {self._job.id} is in no flow: send the call with enqueue()")
        return self._place

    def _id_of(self, call: Call[Any]) -> JobId:
        """Returns the same id in each attempt of the running job that adds the same calls."""
        if call.options.id is not None:
            return call.new_id()
        said = call.task.encode() + b"\0" + call.payload
        self._added[said] += 1
        return ids.derived(self._job.job_id, said + b"%d" % self._added[said])

    def _additions(self, joins: list[Child], job_id: JobId) -> dict[str, list[Addition]]:
        by_queue: dict[str, list[Addition]] = {}
        for child in joins:
            addition = Addition(child.job_id, job_id, self._job.job_id)
            by_queue.setdefault(child.queue, []).append(addition)
        return by_queue

    async def _announce(
        self, store: Store, waiting: list[Child], job_id: JobId
    ) -> list[Child] | None:
        """Those that now wait for the new job; None if it has ended already."""
        answers: dict[JobId, str] = {}
        for queue, additions in self._additions(waiting, job_id).items():
            asked = await retry_while_unavailable(partial(store.add_parents, queue, additions))
            children = (each.child for each in additions)
            answers.update(zip(children, asked, strict=True))
        if "ended" in answers.values():
            return None
        if waiting and set(answers.values()) == {"gone"}:
            raise HeadraceError(
                f"nothing can be added to the flow: the jobs that waited for job {self._job.id} "
                "have gone on or have ended"
            )
        return [child for child in waiting if answers[child.job_id] != "gone"]

    async def _send(
        self, call: Call[Any], job_id: JobId, flow: JobId, end_queue: str, joins: list[Child]
    ) -> None:
        session = await self._app.session()
        now_ms = await self._app.outgoing.now_ms(session, [call])
        graph = graph_of_added(job_id, call.queue, call.task, joins)
        membership = FlowMembership(job_id, flow, "", (), tuple(joins), end_queue, graph)
        parcel = call.parcel(now_ms, membership)
        await session.sender.send(
            call.queue, [parcel], custom_ids=True, confirm=call.options.confirm
        )
