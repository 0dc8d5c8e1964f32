"""The span of a run: where it is current, and what it says of each kind of end."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased
from opentelemetry.trace import Span, StatusCode, get_current_span

from headrace import (
    BatchError,
    Context,
    Defer,
    Delivery,
    Headrace,
    Job,
    Reject,
    Retry,
    RetryLater,
    Tracing,
)
from tests.exposition.tracing import Traces, id_of, linked, parent_id, said

# At the top level, as tasks that another process must import have to be.
elsewhere = Headrace("memory://")
elsewhere_traces = Traces()
elsewhere.middleware(Tracing(elsewhere_traces.provider))


def span_id() -> int:
    return get_current_span().get_span_context().span_id


@elsewhere.task(run_in="process")
def there() -> list[str]:
    with elsewhere_traces.tracer.start_as_current_span("inside") as span:
        assert isinstance(span, ReadableSpan)
        assert span.parent is not None
        return [f"{span.parent.trace_id:x}", f"{span.parent.span_id:x}"]


@pytest.fixture
async def app() -> AsyncIterator[Headrace]:
    async with Headrace("memory://") as app:
        yield app


def traced(app: Headrace, traces: Traces | None = None, **options: Any) -> Traces:
    traces = traces or Traces()
    app.middleware(Tracing(traces.provider, **options))
    return traces


def outcome(span: ReadableSpan) -> tuple[object, StatusCode, object]:
    facts = said(span)
    return facts["headrace.outcome"], span.status.status_code, facts.get("error.type")


async def settled(job: Job[Any]) -> None:
    await asyncio.gather(job.result(30), return_exceptions=True)


@pytest.mark.parametrize("sampled", [True, False])
async def test_no_run_sees_the_span_of_another(app: Headrace, sampled: bool) -> None:
    """However many share an asyncio task, wait, fail or are cut short."""
    traces = traced(app, Traces(None if sampled else ParentBased(ALWAYS_OFF)))
    expected: dict[int, int] = {}
    seen: dict[int, set[int]] = {}
    chance = random.Random(7)

    def look(number: int) -> None:
        context = get_current_span().get_span_context()
        seen.setdefault(number, set()).add(context.span_id if sampled else context.trace_id)

    async def nested(number: int, waits: bool) -> None:
        with traces.tracer.start_as_current_span(f"part of {number}"):
            await asyncio.sleep(0 if waits else 0.001)
        look(number)

    @app.task(retry=Retry(1), timeout=0.2)
    async def work(number: int, kind: str) -> None:
        look(number)
        if kind == "waits":
            await asyncio.sleep(chance.random() / 100)
        elif kind == "parts":
            await asyncio.gather(*(nested(number, waits) for waits in (True, False)))
        elif kind == "hangs":
            try:
                await asyncio.sleep(60)
            finally:
                look(number)
        look(number)
        if kind == "fails":
            raise LookupError(number)

    @app.task
    def sync(number: int, kind: str) -> None:
        look(number)

    kinds = ["quick", "quick", "fails", "waits", "parts", "thread", "hangs"]
    async with app.worker(concurrency=20):
        jobs = []
        for number in range(120):
            kind = chance.choice(kinds)
            with traces.tracer.start_as_current_span(f"request {number}") as request:
                jobs.append(await (sync if kind == "thread" else work).enqueue(number, kind))
                expected[number] = request.get_span_context().trace_id
        await asyncio.gather(*map(settled, jobs))
        if sampled:
            spans = await traces.until("process default", 120)
    if not sampled:
        assert seen == {number: {id} for number, id in expected.items()}
        assert not traces.all
        return
    by_job = {said(span)["messaging.message.id"]: span for span in spans}
    assert seen == {number: {id_of(by_job[job.id])} for number, job in enumerate(jobs)}
    for number, job in enumerate(jobs):
        context = by_job[job.id].get_span_context()
        assert context is not None
        assert context.trace_id == expected[number]
        for part in traces.named(f"part of {number}"):
            assert parent_id(part) == context.span_id


async def test_a_worker_that_was_started_in_a_span_makes_no_children_of_it(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    untraced, app = Headrace(url), Headrace(url)
    traces = traced(app)

    async def nothing() -> None: ...

    send, _ = untraced.task(name="nothing")(nothing), app.task(name="nothing")(nothing)
    with traces.tracer.start_as_current_span("start"):
        async with untraced, app, app.worker():
            await (await send.enqueue()).result(30)
            (process,) = await traces.until("process default")
    assert (process.parent, linked(traces.one("receive default"))) == (None, set())


async def test_the_span_is_current_in_a_thread(app: Headrace) -> None:
    traces = traced(app)

    @app.task
    def sync() -> int:
        return span_id()

    async with app.worker():
        found = await (await sync.enqueue()).result(30)
        (process,) = await traces.until("process default")
    assert found == id_of(process)


async def test_spans_made_in_a_process_are_children_of_the_run() -> None:
    async with elsewhere, elsewhere.worker():
        parent = await (await there.enqueue()).result(60)
        (process,) = await elsewhere_traces.until("process default")
    context = process.get_span_context()
    assert context is not None
    assert parent == [f"{context.trace_id:x}", f"{context.span_id:x}"]


async def test_what_a_task_asks_for_is_no_error(app: Headrace) -> None:
    traces = traced(app)

    @app.task(retry=Retry(2, backoff=[0]))
    async def ask(ctx: Context, how: str) -> None:
        if ctx.fence == 1 and how == "defer":
            raise Defer(0)
        if ctx.fence == 1 and how == "later":
            raise RetryLater(0)
        if how == "reject":
            raise Reject("not for us")
        if how == "hang":
            await asyncio.sleep(60)

    async with app.worker(concurrency=1):
        for how in ("defer", "later", "reject"):
            await settled(await ask.enqueue(how))
        await traces.until("process default", 5)
        job = await ask.enqueue("hang")
        await traces.until("receive default", 6)
        await job.cancel()
        await settled(job)
        await settled(await ask.options(timeout=0.02, retry=Retry(1)).enqueue("hang"))
        spans = await traces.until("process default", 7)
    unset, error = StatusCode.UNSET, StatusCode.ERROR
    assert [outcome(span) for span in spans] == [
        ("defer", unset, None),
        ("done", unset, None),
        ("retry", unset, None),
        ("done", unset, None),
        ("dead", error, "headrace.errors.Reject"),
        ("cancelled", unset, None),
        ("dead", error, "TimeoutError"),
    ]
    assert not [span for span in spans if span.events]


async def test_a_batch_of_which_some_fail_says_how_many(app: Headrace) -> None:
    traces = traced(app)

    @app.task(batch=3, max_wait=60, retry=Retry(1))
    async def load(rows: list[int]) -> None:
        raise BatchError({0: LookupError("no"), 2: LookupError("no")})

    async with app.worker():
        for job in await app.enqueue_many(load.call(row) for row in range(3)):
            await settled(job)
        (span,) = await traces.until("process default")
    assert outcome(span) == ("mixed", StatusCode.ERROR, "LookupError")
    assert said(span)["headrace.failed"] == 2
    assert linked(span) == {id_of(traces.one("send default"))}


async def test_a_span_of_an_event_settled_by_hand_lasts_as_long_as_its_function(
    app: Headrace,
) -> None:
    traces = traced(app)
    orders = app.topic("orders", int)
    acked, go_on = asyncio.Event(), asyncio.Event()

    @orders.subscribe("billing", ack="manual")
    async def bill(order: int, delivery: Delivery) -> None:
        await delivery.ack()
        acked.set()
        await go_on.wait()

    async with app.worker():
        await orders.publish(1)
        await acked.wait()
        assert not traces.named("process orders")
        go_on.set()
        (span,) = await traces.until("process orders")
    assert outcome(span) == ("done", StatusCode.UNSET, None)


async def test_link_only_begins_traces_of_their_own(app: Headrace) -> None:
    traces = traced(app, link_only=True, receive=False)

    @app.task
    async def nothing() -> None: ...

    async with app.worker():
        await (await nothing.enqueue()).result(30)
        (process,) = await traces.until("process default")
    assert (process.parent, linked(process)) == (None, {id_of(traces.one("send default"))})
    assert not traces.named("receive default")


async def test_reads_have_at_most_128_links(app: Headrace) -> None:
    traces = traced(app)

    @app.task
    async def nothing(number: int) -> None: ...

    jobs = [await nothing.enqueue(number) for number in range(150)]
    async with app.worker(concurrency=400):
        await asyncio.gather(*map(settled, jobs))
        (receive,) = await traces.until("receive default")
    assert (len(receive.links), said(receive)["messaging.batch.message_count"]) == (128, 150)


async def test_without_an_sdk_the_trace_is_passed_on() -> None:
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    seen: list[str] = []

    def name(span: Span) -> str:
        return f"{span.get_span_context().trace_id:032x}"

    async with Headrace("memory://") as app:
        app.middleware(Tracing(trace.NoOpTracerProvider()))

        @app.task
        async def first(ctx: Context) -> None:
            seen.append(name(get_current_span()))
            await second.enqueue()

        @app.task
        async def second(ctx: Context) -> None:
            seen.append(name(get_current_span()))
            assert ctx.headers["traceparent"] == parent

        async with app.worker():
            await (await first.options(headers={"traceparent": parent}).enqueue()).result(30)
            while len(seen) < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
    assert seen == [parent[3:35]] * 2
