"""`inline=True`: what is sent is run before `enqueue` returns."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Protocol

from headrace.client.job import Job, Send, SendMany
from headrace.client.send.outgoing import Outgoing
from headrace.client.topic.publication import Publication, Publish, PublishOutcome
from headrace.core.task.call import Call


@contextmanager
def replaced(thing: object, **attributes: Any) -> Iterator[None]:
    """Within it, `thing` has these attributes; then those of before."""
    before = {name: vars(thing)[name] for name in attributes}
    vars(thing).update(attributes)
    try:
        yield
    finally:
        vars(thing).update(before)


class DrainAll(Protocol):
    """Runs all that is due."""

    def __call__(self) -> Awaitable[int]: ...


class Inline:
    """Within it, each send and publish of an app ends with a drain."""

    def __init__(self, outgoing: Outgoing, drain: DrainAll) -> None:
        self._drain = drain
        publishing = outgoing.publishing
        flow_sending = outgoing.flow_sending
        self._replaced = replaced(
            outgoing,
            send=self._one(outgoing.send),
            send_batch=self._many(outgoing.send_batch),
            flow_sending=lambda send: self._many(flow_sending(send)),
            publishing=lambda publish: self._published(
                publish if publishing is None else publishing(publish)
            ),
        )

    def __enter__(self) -> None:
        self._replaced.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._replaced.__exit__(kind, error, traceback)

    async def _run(self) -> None:
        await self._drain()

    def _one(self, send: Send) -> Send:
        async def inline(call: Call[Any]) -> Job[Any]:
            job = await send(call)
            await self._run()
            return job

        return inline

    def _many(self, send: SendMany) -> SendMany:
        async def inline(calls: Sequence[Call[Any]]) -> list[Job[Any]]:
            jobs = await send(calls)
            await self._run()
            return jobs

        return inline

    def _published(self, publish: Publish) -> Publish:
        async def inline(publication: Publication) -> PublishOutcome[Any]:
            outcome = await publish(publication)
            await self._run()
            return outcome

        return inline
