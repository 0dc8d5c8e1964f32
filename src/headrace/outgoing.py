"""How calls and flows leave the app: through its middleware, in as few round trips as can be."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import islice
from typing import Any, TypeVar

from headrace.client.app import ClientApp, Send, SendMany
from headrace.client.dispatch import Office, send_flow
from headrace.client.flow import FlowJob
from headrace.client.gathering import BATCH
from headrace.client.job import Job
from headrace.client.publication import Publish
from headrace.client.session import Session
from headrace.core.job.ids import JobKey
from headrace.core.job.parcel import Parcel
from headrace.core.task.call import Call, Step
from headrace.errors import ConfigError
from headrace.middleware import nesting
from headrace.middleware.wrapping import Middleware

R = TypeVar("R")


class Outgoing:
    """What one app sends."""

    def __init__(self, app: ClientApp) -> None:
        self._app = app
        self._middleware: Sequence[Middleware] = ()
        self._through: Send | None = None
        self._many_through: SendMany | None = None
        self.sending: Callable[[Send], Send] | None = None
        """What puts a send inside of the app's middleware, if any has a say in it."""
        self.publishing: Callable[[Publish], Publish] | None = None
        """What puts a publish inside of the app's middleware, if any has a say in it."""

    def wrap(self, middleware: Sequence[Middleware]) -> None:
        """Send and publish through these from now on."""
        self._middleware = middleware
        self.sending = nesting.sending(middleware)
        self.publishing = nesting.publishing(middleware)
        if senders := nesting.that_send(middleware):
            together, alone = nesting.split(senders)
            self._through = nesting.sending_through(senders, self._send_one)
            each = partial(_all_sent, nesting.sending_through(alone, self._send_one))
            inner = each if alone else self._send_batch
            self._many_through = nesting.sending_many_through(together, inner)

    async def one(self, call: Call[Any]) -> Job[Any]:
        if self._through is not None:
            return await self._through(call)
        return await self._send_one(call)

    async def many(self, calls: Iterable[Call[R]]) -> list[Job[R]]:
        send: SendMany = self._many_through or self._send_batch
        jobs: list[Job[R]] = []
        remaining = iter(calls)
        while batch := list(islice(remaining, BATCH)):
            jobs += await send(batch)
        return jobs

    async def _now_ms(self, session: Session, calls: Sequence[Call[Any]]) -> int:
        """The time for envelopes: the store's if something depends on it, else ours will do."""
        if any(call.needs_time for call in calls):
            return await session.store.time_ms()
        return self._app.clock.now_ms()

    async def _send_one(self, call: Call[Any]) -> Job[Any]:
        session = await self._app.session()
        now_ms = await self._now_ms(session, [call]) if call.options else None
        parcel = call.parcel(now_ms)
        named = call.options.id is not None
        instead = await session.sender.send(call.queue, [parcel], named=named)
        return Job(self._app, instead[0] if instead else parcel.key, call.queue, call.returns)

    async def _send_batch(self, calls: Sequence[Call[R]]) -> list[Job[R]]:
        session = await self._app.session()
        jobs: list[Job[R]] = []
        parcels: dict[str, list[Parcel]] = {}
        special = [call for call in calls if not call.is_plain]
        _check_calls(special)
        named = any(call.options.id is not None for call in special)
        now_ms = await self._now_ms(session, special) if special else None
        for call in calls:
            parcel = call.parcel(now_ms)
            if call.queue not in parcels:
                parcels[call.queue] = []
            parcels[call.queue].append(parcel)
            jobs.append(Job(self._app, parcel.key, call.queue, call.returns))
        for queue, batch in parcels.items():
            instead = await session.sender.send(queue, batch, named=named)
            if instead:
                places = [at for at, call in enumerate(calls) if call.queue == queue]
                for position, key in instead.items():
                    jobs[places[position]].key = key
        return jobs

    async def flow(self, step: Step[Any]) -> FlowJob[Any]:
        if not isinstance(step, Step):
            raise ConfigError(f"enqueue() takes calls and flows, like task.call(…), not {step!r}")

        def make(call: Call[Any], key: JobKey) -> Job[Any]:
            return Job(self._app, key, call.queue, call.returns)

        session = await self._app.session()
        together, alone = nesting.split(nesting.that_send(self._middleware))
        office = Office(
            session,
            make,
            partial(self._now_ms, session),
            partial(nesting.sending_through, alone) if alone else None,
            partial(nesting.sending_many_through, together),
        )
        return await send_flow(office, step)


def _check_calls(calls: Sequence[object]) -> None:
    for call in calls:
        if not isinstance(call, Call):
            raise ConfigError(f"enqueue_many() takes calls; send {call!r} with enqueue()")


async def _all_sent(send: Send, calls: Sequence[Call[Any]]) -> list[Job[Any]]:
    """Sends that share their round trips; one that fails keeps none of the others from going."""
    jobs = await asyncio.gather(*map(send, calls), return_exceptions=True)
    for job in jobs:
        if isinstance(job, BaseException):
            raise job
    return [job for job in jobs if not isinstance(job, BaseException)]
