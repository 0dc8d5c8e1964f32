"""What tracing sends along, and what it never does: keep something from being sent."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from opentelemetry import baggage, context, propagate
from opentelemetry.propagators.textmap import Setter, TextMapPropagator, default_setter
from opentelemetry.trace import StatusCode, get_current_span

from headrace import ConfigError, Context, Headrace, Middleware, PayloadTooLarge, TopicFull, Tracing
from headrace.core.job.envelope import decode_envelope
from headrace.exposition.tracing.carrier import Carrier
from headrace.middleware import Publication, Publish
from headrace.outbox import Outbox
from headrace.outbox.row_codec import decode_parcel
from tests.exposition.tracing import Traces, id_of, parent_id, said


@pytest.fixture
def traces() -> Traces:
    return Traces()


@pytest.fixture
async def app(traces: Traces) -> AsyncIterator[Headrace]:
    async with Headrace("memory://") as app:
        app.middleware(Tracing(traces.provider))
        yield app


async def sent(app: Headrace, **options: Any) -> Mapping[str, str]:
    """The headers with which a job arrives."""
    seen: list[Mapping[str, str]] = []

    @app.task
    async def look(ctx: Context) -> None:
        seen.append(ctx.headers)

    async with app.worker():
        await (await look.options(**options).enqueue()).result(30)
    return seen[0]


async def test_sync_code_sends_from_within_its_span(app: Headrace, traces: Traces) -> None:
    @app.task
    async def nothing() -> None: ...

    def request() -> int:
        with traces.tracer.start_as_current_span("request") as span:
            nothing.enqueue_sync()
            return span.get_span_context().span_id

    assert parent_id_of_send(traces) is None
    assert await asyncio.to_thread(request) == parent_id_of_send(traces)
    app.portal.close()


def parent_id_of_send(traces: Traces) -> int | None:
    return next(map(parent_id, traces.named("send default")), None)


async def test_a_send_that_fails_is_an_error(app: Headrace, traces: Traces) -> None:
    class Refuses(Middleware):
        async def send(self, call: Any, send: Any) -> Any:
            raise PermissionError("closed")

    @app.task
    async def nothing() -> None: ...

    app.middleware(Refuses())
    with pytest.raises(PermissionError):
        await nothing.enqueue()
    with pytest.raises(PermissionError):
        await app.enqueue_many([nothing.call()])
    for span in traces.named("send default"):
        assert said(span)["error.type"] == "PermissionError"
        assert span.status.status_code is StatusCode.ERROR


async def test_a_publish_that_fails_is_an_error(app: Headrace, traces: Traces) -> None:
    small = app.topic("small", str, max_length=1, overflow="reject", max_payload=100)

    @small.subscribe("all")
    async def note(text: str) -> None: ...

    await small.publish("first")
    with pytest.raises(TopicFull):
        await small.publish("second")
    with pytest.raises(PayloadTooLarge):
        await small.publish("x" * 200)
    assert not (await small.publish_many(["third"])).ok
    kinds = [said(span).get("error.type") for span in traces.named("publish small")]
    full, large = "headrace.errors.TopicFull", "headrace.errors.PayloadTooLarge"
    assert kinds == [None, full, large, full]


async def test_a_trace_that_the_caller_names_is_left_alone(app: Headrace) -> None:
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    assert await sent(app, headers={"traceparent": parent}) == {"traceparent": parent}
    orders = app.topic("orders", int)
    await orders.publish(1, headers={"traceparent": parent})
    (event,) = await orders.read()
    assert event.headers == {"traceparent": parent}


@pytest.mark.parametrize("size", [10, 8000])
async def test_baggage_travels_if_it_fits(app: Headrace, traces: Traces, size: int) -> None:
    found: list[object] = []

    @app.task
    async def look() -> None:
        found.append(baggage.get_baggage("tenant"))

    token = context.attach(baggage.set_baggage("tenant", "x" * size))
    try:
        orders = app.topic("orders", int)
        await orders.publish(1)
        filler = {f"filler-{number}": "x" * 3000 for number in range(3)}
        job = await look.options(headers=filler if size > 10 else {}).enqueue()
    finally:
        context.detach(token)
    async with app.worker():
        await job.result(30)
    assert found == ["x" * size if size == 10 else None]
    (event,) = await orders.read()
    assert event.span_id == f"{id_of(traces.one('publish orders')):016x}"


class Odd(TextMapPropagator):
    """Has a form of its own."""

    def inject(
        self,
        carrier: Any,
        context: context.Context | None = None,
        setter: Setter[Any] = default_setter,
    ) -> None:
        span = get_current_span(context).get_span_context()
        setter.set(carrier, "odd", f"{span.span_id}")

    def extract(self, carrier: Any, context: Any = None, getter: Any = None) -> Any:
        return context

    @property
    def fields(self) -> set[str]:
        return {"odd"}


async def test_the_global_propagator_says_what_travels(
    app: Headrace, traces: Traces, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(propagate, "_HTTP_TEXT_FORMAT", Odd())
    assert await sent(app) == {"odd": str(id_of(traces.one("send default")))}


@pytest.mark.parametrize(
    "parent",
    [
        "",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
        "00-0af7651916cd43dd8448eb211c80319z-b7ad6b7169203331-00",
        "00-00000000000000000000000000000000-b7ad6b7169203331-00",
        "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00-more",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-02",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-03",
        "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
        "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00",
        "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
    ],
)
def test_headers_are_read_as_the_propagator_reads_them(parent: str) -> None:
    carrier = Carrier()
    for headers in ({"traceparent": parent}, {"traceparent": parent, "tracestate": "a=b"}):
        ours = get_current_span(carrier.extract(headers)).get_span_context()
        theirs = get_current_span(propagate.extract(headers)).get_span_context()
        assert ours == theirs
        assert ours.trace_state == theirs.trace_state
        if unsampled := carrier.unsampled(headers):
            assert not ours.trace_flags.sampled
            assert get_current_span(unsampled).get_span_context() == ours


async def test_an_outbox_writes_the_context_of_its_transaction(
    app: Headrace, traces: Traces
) -> None:
    @app.task
    async def nothing() -> None: ...

    orders, outbox = app.topic("orders", int), Outbox(app)
    with sqlite3.connect(":memory:") as connection:
        outbox.create(connection)
        outbox.enqueue(connection, nothing.call())
        outbox.publish(connection, orders, 1)
        rows = connection.execute("SELECT parcel FROM headrace_outbox ORDER BY rowid").fetchall()
    connection.close()
    envelopes = [decode_envelope(decode_parcel(row[0]).envelope) for row in rows]
    parents = [envelope.overrides.headers["traceparent"][36:52] for envelope in envelopes]
    spans = [traces.one("send default"), traces.one("publish orders")]
    assert parents == [f"{id_of(span):016x}" for span in spans]


async def test_a_middleware_may_change_what_is_published(app: Headrace) -> None:
    class Doubles(Middleware):
        async def publish(self, publication: Publication, publish: Publish) -> Any:
            publication.events = [event * 2 for event in publication.events]
            publication.options["key"] = "same"
            return await publish(publication)

    app.middleware(Doubles())
    orders = app.topic("orders", int)
    await orders.publish(1, id="first")
    await orders.publish(1, id="first")
    outcome = await orders.publish_many(range(2, 1202))
    assert outcome.ok
    assert len(outcome) == 1200
    events = await orders.read(limit=2000)
    assert [event.data for event in events] == list(range(2, 2403, 2))
    assert {event.key for event in events} == {"same"}


@pytest.mark.parametrize("odd", ["a provider", 3, Tracing])
def test_what_is_no_provider_is_refused(odd: Any) -> None:
    with pytest.raises(ConfigError, match="TracerProvider"):
        Tracing(odd)


def test_without_opentelemetry_headrace_works_and_tracing_says_what_to_install() -> None:
    program = """
import sys
sys.modules["opentelemetry"] = None
import headrace
try:
    headrace.Tracing()
except headrace.ConfigError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert "pip install 'headrace[tracing]'" in done.stdout
