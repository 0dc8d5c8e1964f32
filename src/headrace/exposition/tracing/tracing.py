"""The tracing middleware. The files beside it do the work, and need OpenTelemetry."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from headrace.client.context import Context
from headrace.client.job import Job, Send, SendMany
from headrace.client.topic.publication import Publication, Publish, PublishOutcome
from headrace.core.task.call import Call
from headrace.errors import ConfigError
from headrace.middleware.views import JobRun, Received
from headrace.middleware.wrapping import Middleware, Proceed

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider


class Tracing(Middleware):
    """Spans by OpenTelemetry's messaging conventions: `app.middleware(Tracing())`, before others.

    Args:
        tracer_provider: Where spans go; the global one, as it is when the first span is made,
            unless said.
        link_only: Whether a run's span starts a trace of its own, with a link, rather than being a
            child of the span in which its job was sent.
        receive: Whether reads of workers have spans.
    """

    def __init__(
        self,
        tracer_provider: TracerProvider | None = None,
        *,
        link_only: bool = False,
        receive: bool = True,
    ) -> None:
        try:
            from headrace.exposition.tracing.carrier import Carrier
            from headrace.exposition.tracing.consumer_spans import ProcessSpans, ReceiveSpans
            from headrace.exposition.tracing.producer_spans import SendSpans
            from headrace.exposition.tracing.spans import TracerSource
        except ModuleNotFoundError as error:
            if not (error.name or "").startswith("opentelemetry"):
                raise
            raise ConfigError(
                "Tracing() needs OpenTelemetry: pip install 'headrace[tracing]'"
            ) from None
        source, carrier = TracerSource(tracer_provider), Carrier()
        self._sending = SendSpans(source, carrier)
        self._receiving = ReceiveSpans(source, carrier) if receive else None
        self._processing = ProcessSpans(source, carrier, link_only=link_only)
        self._wants = self._processing.wants

    async def send(self, call: Call[Any], send: Send) -> Job[Any]:
        """A span `send` with the queue's name, whose context travels with the job."""
        return await self._sending.one(call, send)

    async def send_many(self, calls: Sequence[Call[Any]], send: SendMany) -> list[Job[Any]]:
        """One span for all, whose context travels with each of them."""
        return await self._sending.many(calls, send)

    async def publish(self, publication: Publication, publish: Publish) -> PublishOutcome[Any]:
        """A span `publish` with the topic's name, whose context travels with the events."""
        return await self._sending.publish(publication, publish)

    def received(self, received: Received) -> None:
        """A span `receive` with links to where the jobs were sent."""
        if self._receiving is not None:
            self._receiving.received(received)

    def wants(self, run: JobRun) -> bool:
        """False if the run belongs to an unsampled trace."""
        return self._wants(run)

    async def run(self, run: JobRun, proceed: Proceed) -> Any:
        """A span `process`, current while the function runs, with the outcome at its end."""
        return await self._processing.run(run, proceed)

    def within(self, context: Context) -> AbstractContextManager[object]:
        """Make spans of the function, in its process, children of the run's span."""
        return self._processing.within(context)
