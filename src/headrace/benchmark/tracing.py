"""What tracing costs: the same drain without it, and with none, some or all traces sampled."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from headrace import Tracing
from headrace.benchmark.figures import Figure, Sizes, middle
from headrace.benchmark.jobs import jobs_on

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider

_CONCURRENCY = 512
_AT_ONCE = 5_000
_OFF = "off"
_SAMPLED = {"not sampled": 0.0, "1 % sampled": 0.01, "all sampled": 1.0}
_LEAST = {"not sampled": 0.75, "1 % sampled": 0.75}
"""Of the drain without tracing. A span that is sampled costs what the SDK takes to make it, which
is several times what an empty job takes."""

Report = Callable[[str], None]


async def measure_tracing(url: str, sizes: Sizes, report: Report) -> list[Figure]:
    """Each job has a trace of its own, the most that it can cost."""
    if importlib.util.find_spec("opentelemetry.sdk") is None:
        report("tracing is left out: pip install opentelemetry-sdk to measure it")
        return []
    rates: dict[str, list[float]] = {name: [] for name in (_OFF, *_SAMPLED)}
    for _ in range(sizes.repeats):
        report("Redis: drain with and without tracing")
        for name, measured in rates.items():
            measured.append(await _drain(url, sizes.drain, _SAMPLED.get(name)))
    off = middle(rates[_OFF])
    return [
        Figure(f"drain traced, {name}, to off", middle(rates[name]), "/s", off, _LEAST.get(name))
        for name in _SAMPLED
    ]


async def _drain(url: str, count: int, sampled: float | None) -> float:
    async with jobs_on(url) as jobs:
        if sampled is None:
            await jobs.send_many(jobs.forgotten, count)
            return await jobs.drain(jobs.forgotten, _CONCURRENCY)
        provider = _provider(sampled)
        try:
            jobs.app.middleware(Tracing(provider))
            for at in range(0, count, _AT_ONCE):
                await jobs.send_gathered(min(_AT_ONCE, count - at))
            return await jobs.drain(jobs.forgotten, _CONCURRENCY)
        finally:
            provider.shutdown()


def _provider(sampled: float) -> TracerProvider:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
    from opentelemetry.sdk.trace.sampling import ParentBasedTraceIdRatio

    class Nowhere(SpanExporter):
        """Takes spans, and is done with them."""

        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            return SpanExportResult.SUCCESS

    provider = TracerProvider(sampler=ParentBasedTraceIdRatio(sampled))
    provider.add_span_processor(BatchSpanProcessor(Nowhere()))
    return provider
