"""How calls leave the app: through its middleware, in as few round trips as possible."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Protocol, TypeVar

from headrace.client.job import Job, JobApp, Send, SendMany
from headrace.client.send.coalescer import BATCH
from headrace.client.send.offloading import discard, put
from headrace.client.send.queue_sender import Instead
from headrace.client.send.unsent import TROUBLE, Unsent, texts
from headrace.client.session import ClientSession
from headrace.core.clock import Clock
from headrace.core.confirming import UNCONFIRMED, Confirming, all_of
from headrace.core.flow.flow import check_step
from headrace.core.job import ids
from headrace.core.job.ids import JobId
from headrace.core.job.parcel import Parcel
from headrace.core.payload.offload import Offload
from headrace.core.task.call import Call
from headrace.errors import ConfigError, EnqueueUnknown

R = TypeVar("R")


class OutgoingApp(JobApp, Protocol):
    """What sending needs of an app."""

    @property
    def clock(self) -> Clock: ...


class Outgoing:
    """Sends the calls of one app. Without middleware `send` is `send_one` itself, and `send_batch`
    is `send_together`; `middleware.nesting.wrap` puts middleware around them."""

    def __init__(self, app: OutgoingApp) -> None:
        self._app = app
        self.send: Send = self.send_one
        """Sends one call through the app's middleware."""
        self.send_batch: SendMany = self.send_together
        """Sends calls, at most `BATCH`, through the app's middleware."""
        self.sending: Callable[[Send], Send] | None = None
        """Puts a send inside of the app's middleware; None if no middleware has a `send`."""
        self.flow_sending: Callable[[SendMany], SendMany] = _unchanged
        """Puts the sending of a flow inside of the middleware that takes calls together."""
        self.flow_call_sending: Callable[[Send], Send] | None = None
        """Puts a call of a flow inside of the middleware that takes calls one by one."""
        self.publishing: Callable[[Any], Any] | None = None
        """Puts a publish inside of the app's middleware; None if no middleware has a `publish`."""

    async def send_one(self, call: Call[Any]) -> Job[Any]:
        """Send one call, past all middleware."""
        session = await self._app.session()
        now_ms = await self.now_ms(session, [call]) if call.options else None
        parcel = call.parcel(now_ms)
        if call.packer is not None and call.packer.offload is not None:
            return await self._send_outside(session, call, call.packer.offload, parcel)
        options = call.options
        instead = await session.sender.send(
            call.queue, [parcel], custom_ids=options.id is not None, confirm=options.confirm
        )
        return Job(self._app, instead[0] if instead else parcel.job_id, call.queue, call.returns)

    async def _send_outside(
        self, session: ClientSession, call: Call[Any], offload: Offload, parcel: Parcel
    ) -> Job[Any]:
        """Send a call whose payload, if it is large, is kept outside of the store before the job is
        there."""
        parcel = await put(offload, parcel, call.packer.most if call.packer else 0)
        try:
            instead = await session.sender.send(
                call.queue,
                [parcel],
                custom_ids=call.options.id is not None,
                confirm=call.options.confirm,
            )
        except (EnqueueUnknown, asyncio.CancelledError):
            # The job may be there, and need it.
            raise
        except BaseException:
            await discard(offload, [parcel.envelope])
            raise
        if instead:
            await discard(offload, [parcel.envelope])
        return self.job(call, instead[0] if instead else parcel.job_id)

    async def send_many(self, calls: Iterable[Call[R]]) -> list[Job[R]]:
        """Send any number of calls through the app's middleware. If some are refused, the others
        still go; if the store is away, no more do. Then one error names all that are not stored."""
        if not isinstance(calls, Iterable):
            raise ConfigError("enqueue_many() takes a list: enqueue_many([a.call(1), b.call(2)])")
        jobs: list[Job[R]] = []
        unsent = Unsent()
        remaining = iter(calls)
        while batch := list(islice(remaining, BATCH)):
            if unsent.has_ended:
                unsent.skip(_ids_of(batch))
                continue
            try:
                jobs += await self.send_batch(batch)
            except TROUBLE as error:
                unsent.fail(error, _ids_of(batch))
        unsent.check(stored=bool(jobs))
        return jobs

    async def send_each(self, send: Send, calls: Sequence[Call[Any]]) -> list[Job[Any]]:
        """Send calls one by one, in shared round trips. If one fails, the others still go."""
        jobs: list[Job[Any]] = []
        unsent = Unsent()
        answers = await asyncio.gather(*map(send, calls), return_exceptions=True)
        for call, answer in zip(calls, answers, strict=True):
            if isinstance(answer, TROUBLE):
                unsent.fail(answer, _ids_of([call]))
            elif isinstance(answer, BaseException):
                raise answer
            else:
                jobs.append(answer)
        unsent.check(stored=bool(jobs))
        return jobs

    async def send_together(self, calls: Sequence[Call[R]]) -> list[Job[R]]:
        """Send calls in one append for each queue, past all middleware."""
        session = await self._app.session()
        jobs: list[Job[R]] = []
        parcels: dict[str, list[Parcel]] = {}
        try:
            special = [call for call in calls if not call.is_plain]
        except AttributeError:
            special = list(calls)
        _check_calls(special)
        if any(call.packer is not None and call.packer.offload is not None for call in special):
            return await self.send_each(self.send_one, calls)
        custom_ids = any(call.options.id is not None for call in special)
        confirm = all_of(call.options.confirm for call in special) if special else UNCONFIRMED
        now_ms = await self.now_ms(session, special) if special else None
        for call in calls:
            parcel = call.parcel(now_ms)
            if call.queue not in parcels:
                parcels[call.queue] = []
            parcels[call.queue].append(parcel)
            jobs.append(Job(self._app, parcel.job_id, call.queue, call.returns))
        answers = await self._append(session, parcels, custom_ids, confirm)
        for queue, instead in answers.items():
            if instead:
                positions = [at for at, call in enumerate(calls) if call.queue == queue]
                for position, job_id in instead.items():
                    jobs[positions[position]].job_id = job_id
        return jobs

    async def _append(
        self,
        session: ClientSession,
        parcels: Mapping[str, Sequence[Parcel]],
        custom_ids: bool,
        confirm: Confirming,
    ) -> Mapping[str, Instead]:
        """What the store answers for each queue, if all jobs are stored."""
        answers: dict[str, Instead] = {}
        unsent = Unsent()
        for queue, batch in parcels.items():
            if unsent.has_ended:
                unsent.skip(texts(batch))
                continue
            try:
                answers[queue] = await session.sender.send(
                    queue, batch, custom_ids=custom_ids, confirm=confirm
                )
            except TROUBLE as error:
                unsent.fail(error, texts(batch))
        unsent.check(stored=bool(answers))
        return answers

    async def session(self) -> ClientSession:
        """What this event loop holds of the store."""
        return await self._app.session()

    async def now_ms(self, session: ClientSession, calls: Sequence[Call[Any]]) -> int:
        """The time for envelopes: the store's if one of them depends on it, else this machine's."""
        if any(call.needs_time for call in calls):
            return await session.store.time_ms()
        return self._app.clock.now_ms()

    def job(self, call: Call[Any], job_id: JobId) -> Job[Any]:
        """The handle of the job of a call."""
        return Job(self._app, job_id, call.queue, call.returns)


def _unchanged(send: SendMany) -> SendMany:
    return send


def _ids_of(calls: Iterable[object]) -> list[str]:
    """The ids of calls that were not sent, or are named by the error of their sending."""
    return [ids.to_text(call.new_id()) for call in calls if isinstance(call, Call)]


def _check_calls(calls: Sequence[object]) -> None:
    for call in calls:
        if not isinstance(call, Call):
            check_step("enqueue_many", call)
            raise ConfigError(f"enqueue_many() takes calls; send {call!r} with enqueue()")
