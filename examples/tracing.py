"""One trace from a request through a job to an event and its handler."""

import asyncio
import os

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from headrace import Headrace, Tracing

app = Headrace(os.environ.get("HEADRACE_URL") or "memory://", namespace="example-tracing")

# In your own program: BatchSpanProcessor(OTLPSpanExporter()).
exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
tracer = provider.get_tracer("shop")

app.middleware(Tracing(provider, receive=False))

paid = app.topic("paid", int)
mailed = asyncio.Event()


@app.task(queue="orders")
async def charge(order: int) -> None:
    with tracer.start_as_current_span("ask the bank"):
        await asyncio.sleep(0.01)
    await paid.publish(order)


@paid.subscribe("mail")
async def thank(order: int) -> None:
    mailed.set()


def show(spans: list[ReadableSpan], parent: int | None = None, depth: int = 0) -> None:
    for span in sorted(spans, key=lambda span: span.start_time or 0):
        if (span.parent.span_id if span.parent else None) == parent:
            print("  " * depth + span.name)
            show(spans, span.context.span_id, depth + 1)


async def main() -> None:
    async with app:
        async with app.worker():
            with tracer.start_as_current_span("POST /orders"):
                await charge.enqueue(17)
            await mailed.wait()
        show(list(exporter.get_finished_spans()))


if __name__ == "__main__":
    asyncio.run(main())

# Prints:
# POST /orders
#   send orders
#     process orders
#       ask the bank
#       publish paid
#         process paid
