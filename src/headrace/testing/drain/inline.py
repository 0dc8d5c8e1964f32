"""`inline=True`: what is sent is run before `enqueue` returns."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Protocol, TypeVar

from headrace.client.job import Job, Send, SendMany
from headrace.client.send.outgoing import Outgoing
from headrace.client.topic.publication import Publication, Publish, PublishOutcome
from headrace.core.task.call import Call

T = TypeVar("T")

# How many jobs run within one another: Python ends about twice as many plain functions.
_DEEPEST = 50


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


class _Nested:
    """What a test sends, and all that is sent within it."""

    error: AssertionError | None = None
    """Why nothing more is sent: there is no end to it."""

    def check(self) -> None:
        __tracebackhide__ = True
        if self.error is not None:
            raise self.error


_within: ContextVar[tuple[_Nested, tuple[str, ...]] | None] = ContextVar("within", default=None)
"""The sends that are under way, each by a job of the one before: what they send."""


class Inline:
    """Within it, each send and publish of an app ends with a drain. What a job sends runs within
    that job."""

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

    async def _sent(self, what: str, send: Callable[[], Awaitable[T]]) -> T:
        __tracebackhide__ = True
        nested, outer = _within.get() or (_Nested(), ())
        if len(outer) == _DEEPEST and nested.error is None:
            nested.error = _endless((*outer, what))
        nested.check()
        token = _within.set((nested, (*outer, what)))
        try:
            sent = await send()
            await self._drain()
        finally:
            _within.reset(token)
        if not outer:
            nested.check()
        return sent

    def _one(self, send: Send) -> Send:
        async def inline(call: Call[Any]) -> Job[Any]:
            return await self._sent(call.task, lambda: send(call))

        return inline

    def _many(self, send: SendMany) -> SendMany:
        async def inline(calls: Sequence[Call[Any]]) -> list[Job[Any]]:
            return await self._sent(calls[-1].task if calls else "", lambda: send(calls))

        return inline

    def _published(self, publish: Publish) -> Publish:
        async def inline(publication: Publication) -> PublishOutcome[Any]:
            return await self._sent(publication.topic.name, lambda: publish(publication))

        return inline


def _endless(whats: Sequence[str]) -> AssertionError:
    latest = ", ".join(sorted({repr(what) for what in whats[-5:]}))
    return AssertionError(
        f"with inline=True, jobs have run within jobs, {_DEEPEST} deep, the latest of {latest}: "
        "does a job send itself again? Without inline, drain() runs them one after the other"
    )
