"""A sink that gives metrics to OpenTelemetry."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from headrace.errors import ConfigError
from headrace.metrics.family import MetricSample

try:
    from opentelemetry.metrics import CallbackOptions, Meter, Observation, get_meter
except ModuleNotFoundError as error:
    if not (error.name or "").startswith("opentelemetry"):
        raise
    raise ConfigError(
        "metrics for OpenTelemetry need opentelemetry-api: pip install 'headrace[tracing]'"
    ) from None


class OpenTelemetryMetrics:
    """`app.metrics(OpenTelemetryMetrics())`. Each metric is an observable instrument; the reader of
    its meter provider decides when they are collected.

    Args:
        meter: The meter of the instruments; the global meter provider's unless said.
    """

    def __init__(self, meter: Meter | None = None) -> None:
        self._meter = meter or get_meter("headrace")
        self._latest: dict[str, list[MetricSample]] = {}

    def __call__(self, samples: Sequence[MetricSample]) -> None:
        latest: dict[str, list[MetricSample]] = {}
        for sample in samples:
            latest.setdefault(sample.name, []).append(sample)
        new = latest.keys() - self._latest.keys()
        self._latest |= latest
        for name in sorted(new):
            self._make(name, latest[name][0].kind)

    def _make(self, name: str, kind: str) -> None:
        callbacks = [partial(self._observe, name)]
        if kind == "counter":
            self._meter.create_observable_counter(name, callbacks)
        else:
            self._meter.create_observable_gauge(name, callbacks)

    def _observe(self, name: str, _: CallbackOptions) -> Iterable[Observation]:
        return [Observation(each.value, each.labels) for each in self._latest[name]]
