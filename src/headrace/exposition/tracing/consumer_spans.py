"""Spans around runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from opentelemetry import context as current
from opentelemetry.context import Context as SpanScope
from opentelemetry.trace import Link, Span, SpanKind, set_span_in_context

from headrace.client.context import Context
from headrace.client.subscription import Subscription
from headrace.exposition.tracing.carrier import Carrier, fitting
from headrace.exposition.tracing.conventions import (
    ATTEMPT,
    COUNT,
    MESSAGE_ID,
    SUBSCRIPTION,
    attributes,
    span_name,
)
from headrace.exposition.tracing.tracer import Source
from headrace.exposition.tracing.watch import Watch
from headrace.middleware.views import JobRun
from headrace.middleware.wrapping import Proceed

# On the path of every job: found once.
_attach = current.attach


class Processing:
    def __init__(self, source: Source, carrier: Carrier, *, link_only: bool) -> None:
        self._source = source
        self._carrier = carrier
        self._link_only = link_only
        self._unsampled = carrier.unsampled

    def wants(self, run: JobRun) -> bool:
        """A run whose span would be dropped needs nothing but to know its trace, so that the spans
        made in it are dropped, too. It has a context to itself, which nobody needs after it."""
        if self._link_only or not self._source.drops_unsampled:
            return True
        scope = self._unsampled(run.headers)
        if scope is None or run.task.declared.batch:
            return True
        _attach(scope)
        return False

    async def run(self, run: JobRun, proceed: Proceed) -> Any:
        scope = self._parent(run)
        span = self._started(run, scope)
        token = current.attach(set_span_in_context(span, scope))
        if run.task.declared.run_in == "process":
            self._send_along(run, span)
        watch = Watch(span, run)
        try:
            value = await proceed()
        except GeneratorExit:
            # Thrown away, from wherever: not from within its context.
            watch.ended()
            raise
        except BaseException as error:
            current.detach(token)
            watch.failed(error)
            raise
        current.detach(token)
        watch.ended()
        return value

    @contextmanager
    def within(self, context: Context) -> Iterator[None]:
        token = current.attach(self._carrier.extract(context.headers))
        try:
            yield
        finally:
            current.detach(token)

    def _parent(self, run: JobRun) -> SpanScope:
        """Where the job comes from; not where the worker was started."""
        if run.task.declared.batch:
            return SpanScope()
        return self._carrier.extract(run.headers)

    def _started(self, run: JobRun, scope: SpanScope) -> Span:
        task, queue = run.task, run.queue
        said: dict[str, str | int] = {**attributes("process", "process", queue, task.name)}
        linked = []
        if task.declared.batch:
            jobs = run.jobs
            said[COUNT] = len(jobs)
            linked = self._carrier.links(job.headers for job in jobs)
        else:
            said[MESSAGE_ID], said[ATTEMPT] = run.id, run.attempt
            if self._link_only:
                scope, linked = SpanScope(), self._carrier.links([run.headers])
        if isinstance(task, Subscription) and task.wants.broadcast:
            said[SUBSCRIPTION] = task.wants.group
        return self._source.tracer.start_span(
            span_name("process", queue),
            scope,
            SpanKind.CONSUMER,
            said,
            [Link(context) for context in linked],
            record_exception=False,
            set_status_on_exception=False,
        )

    def _send_along(self, run: JobRun, span: Span) -> None:
        """Let the process in which the function runs know of the span."""
        ours = self._carrier.inject(span)
        given = {name: text for name, text in run.headers.items() if name not in ours}
        run.context.headers = fitting(ours, given)
