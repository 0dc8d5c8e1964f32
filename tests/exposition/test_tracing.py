"""Traces: what is sent is tied to what runs, by the messaging conventions. On every store."""

from __future__ import annotations

import pytest
from opentelemetry.trace import SpanKind, StatusCode, get_current_span

from headrace import Headrace, JobFailed, Retry, Tracing, chain
from tests.exposition.tracing import Traces, id_of, linked, parent_id, said


@pytest.fixture
def traces(app: Headrace) -> Traces:
    traces = Traces()
    app.middleware(Tracing(traces.provider))
    return traces


async def test_a_run_is_a_child_of_what_sent_its_job(app: Headrace, traces: Traces) -> None:
    seen: list[int] = []

    @app.task(queue="mail")
    async def greet(name: str) -> None:
        seen.append(get_current_span().get_span_context().span_id)

    async with app.worker():
        with traces.tracer.start_as_current_span("request") as request:
            job = await greet.enqueue("Ada")
        await job.result(30)
        (process,) = await traces.until("process mail")
    send, receive = traces.one("send mail"), traces.one("receive mail")
    assert parent_id(send) == request.get_span_context().span_id
    assert (parent_id(process), seen) == (id_of(send), [id_of(process)])
    assert (receive.parent, linked(receive)) == (None, {id_of(send)})
    assert [span.kind for span in (send, receive, process)] == [
        SpanKind.PRODUCER,
        SpanKind.CLIENT,
        SpanKind.CONSUMER,
    ]
    everywhere = {"messaging.system": "headrace", "messaging.destination.name": "mail"}
    assert said(send) == everywhere | {
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.message.id": job.id,
        "headrace.task": "greet",
    }
    assert said(receive) == everywhere | {
        "messaging.operation.name": "receive",
        "messaging.operation.type": "receive",
        "messaging.batch.message_count": 1,
    }
    assert said(process) == everywhere | {
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.message.id": job.id,
        "headrace.task": "greet",
        "headrace.attempt": 1,
        "headrace.outcome": "done",
    }


async def test_each_attempt_has_a_span_that_says_how_it_ended(
    app: Headrace, traces: Traces
) -> None:
    @app.task(retry=Retry(2, backoff=[0]))
    async def fail() -> None:
        raise LookupError("no such thing")

    async with app.worker():
        job = await fail.enqueue()
        with pytest.raises(JobFailed):
            await job.result(30)
        spans = await traces.until("process default", 2)
    assert [(said(span)["headrace.attempt"], said(span)["headrace.outcome"]) for span in spans] == [
        (1, "retry"),
        (2, "dead"),
    ]
    for span in spans:
        assert parent_id(span) == id_of(traces.one("send default"))
        assert said(span)["error.type"] == "LookupError"
        assert (span.status.status_code, span.status.description) == (
            StatusCode.ERROR,
            "no such thing",
        )
        assert [event.name for event in span.events] == ["exception"]


async def test_what_is_sent_together_has_one_span(app: Headrace, traces: Traces) -> None:
    @app.task
    async def double(number: int) -> int:
        return number * 2

    async with app.worker():
        jobs = await app.enqueue_many(double.call(number) for number in range(3))
        assert [await job.result(30) for job in jobs] == [0, 2, 4]
        spans = await traces.until("process default", 3)
        flow = await app.enqueue(chain(double.call(4), double.call()))
        assert await flow.result(30) == 16
        spans = await traces.until("process default", 5)
    many, of_flow = traces.named("send default")
    assert said(many)["messaging.batch.message_count"] == 3
    assert said(of_flow)["messaging.batch.message_count"] == 2
    assert [parent_id(span) for span in spans] == [id_of(many)] * 3 + [id_of(of_flow)] * 2


async def test_a_batch_has_one_span_with_links(app: Headrace, traces: Traces) -> None:
    @app.task(batch=3, max_wait=60)
    async def load(rows: list[int]) -> None: ...

    async with app.worker():
        jobs = [await load.enqueue(row) for row in range(3)]
        for job in jobs:
            await job.result(30)
        (process,) = await traces.until("process default")
    sends = {id_of(span) for span in traces.named("send default")}
    assert (len(sends), linked(process), process.parent) == (3, sends, None)
    assert said(process)["messaging.batch.message_count"] == 3
    assert said(process)["headrace.outcome"] == "done"
    assert "messaging.message.id" not in said(process)


async def test_events_belong_to_the_trace_of_their_publish(app: Headrace, traces: Traces) -> None:
    orders = app.topic("orders", int)

    @orders.subscribe("billing")
    async def bill(order: int) -> None: ...

    async with app.worker():
        id = await orders.publish(1)
        await orders.publish_many([2, 3], headers={"tenant": "eu"})
        spans = await traces.until("process orders", 3)
    one, many = traces.named("publish orders")
    assert one.kind is SpanKind.PRODUCER
    assert said(one) == {
        "messaging.system": "headrace",
        "messaging.operation.name": "publish",
        "messaging.operation.type": "send",
        "messaging.destination.name": "orders",
        "messaging.message.id": id,
    }
    assert said(many)["messaging.batch.message_count"] == 2
    parents = sorted(parent_id(span) or 0 for span in spans)
    assert parents == sorted([id_of(one), id_of(many), id_of(many)])
    for span in spans:
        assert said(span)["messaging.destination.name"] == "orders"
        assert said(span)["messaging.consumer.group.name"] == "billing"
        assert said(span)["headrace.task"] == "orders/billing"
