"""Metrics before they have a format: names without a prefix, labels, values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

Kind = Literal["counter", "gauge", "histogram"]


class Distribution(NamedTuple):
    """The value of a histogram."""

    buckets: Sequence[tuple[float, int]]
    """Each upper bound with the number of values up to it; the last bound is infinite."""
    total: float


class Family:
    """A metric and its values, one for each combination of labels."""

    def __init__(self, kind: Kind, name: str, text: str, labels: Sequence[str] = ()) -> None:
        self.kind: Kind = kind
        self.name = name
        """Without prefix, and without the `_total` of a counter."""
        self.text = text
        self.labels = tuple(labels)
        self.values: list[tuple[tuple[str, ...], float | Distribution]] = []

    def add(self, labels: Sequence[str], value: float | Distribution) -> None:
        self.values.append((tuple(labels), value))


class MetricSample(NamedTuple):
    """One value of one metric, as sinks get it. Counters count since the process started."""

    name: str
    kind: Literal["counter", "gauge"]
    """A histogram is counters: `…_count`, `…_sum`, and `…_bucket` with the label `le`."""
    labels: dict[str, str]
    value: float


def samples_of(families: Iterable[Family], prefix: str) -> Iterator[MetricSample]:
    """All values one by one, with the names that Prometheus would show."""
    for family in families:
        name = f"{prefix}_{family.name}"
        for labels, value in family.values:
            named = dict(zip(family.labels, labels, strict=True))
            if isinstance(value, Distribution):
                yield from _parts(name, named, value)
            elif family.kind == "counter":
                yield MetricSample(f"{name}_total", "counter", named, value)
            else:
                yield MetricSample(name, "gauge", named, value)


def _parts(name: str, labels: dict[str, str], value: Distribution) -> Iterator[MetricSample]:
    for most, count in value.buckets:
        yield MetricSample(f"{name}_bucket", "counter", {**labels, "le": le(most)}, count)
    yield MetricSample(f"{name}_count", "counter", labels, value.buckets[-1][1])
    yield MetricSample(f"{name}_sum", "counter", labels, value.total)


def le(most: float) -> str:
    """The upper bound of a bucket, as Prometheus writes it."""
    return "+Inf" if most == float("inf") else repr(most)
