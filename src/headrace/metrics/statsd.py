"""A sink that sends metrics to a StatsD server."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator, Sequence

from headrace.metrics.family import MetricSample

# What fits into one packet on most networks.
_PACKET = 1432
_RESERVED = re.compile(r"[|,#:\s]")
_SPECIAL = re.compile(r"[^A-Za-z0-9_-]")

_Key = tuple[str, tuple[tuple[str, str], ...]]


class Statsd:
    """`app.metrics(Statsd("localhost"))`. Counters are sent as what they grew by, gauges as they
    are; of a histogram its count and its sum.

    Args:
        host: Where the StatsD server is.
        port: Its UDP port.
        tags: Whether labels are tags, as DogStatsD and Telegraf read them, or parts of the name.
    """

    def __init__(self, host: str = "127.0.0.1", port: int = 8125, *, tags: bool = True) -> None:
        self._address = host, port
        self._tags = tags
        self._sent: dict[_Key, float] = {}

    def __call__(self, samples: Sequence[MetricSample]) -> None:
        family, *_, address = socket.getaddrinfo(*self._address, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, socket.SOCK_DGRAM) as server:
            for packet in _packets(self._lines(samples)):
                server.sendto(packet, address)

    def _lines(self, samples: Sequence[MetricSample]) -> Iterator[str]:
        for sample in samples:
            if sample.name.endswith("_bucket"):
                continue
            if sample.kind == "gauge":
                yield f"{self._name(sample)}:{sample.value:g}|g{self._tagged(sample)}"
            elif more := self._growth(sample):
                yield f"{self._name(sample)}:{more:.15g}|c{self._tagged(sample)}"

    def _growth(self, sample: MetricSample) -> float:
        key = sample.name, tuple(sample.labels.items())
        before, self._sent[key] = self._sent.get(key, 0.0), sample.value
        return sample.value - before

    def _name(self, sample: MetricSample) -> str:
        if self._tags:
            return sample.name
        return ".".join(
            [sample.name, *(_SPECIAL.sub("_", each) for each in sample.labels.values())]
        )

    def _tagged(self, sample: MetricSample) -> str:
        if not self._tags or not sample.labels:
            return ""
        tags = (f"{name}:{_RESERVED.sub('_', text)}" for name, text in sample.labels.items())
        return "|#" + ",".join(tags)


def _packets(lines: Iterator[str]) -> Iterator[bytes]:
    packet = b""
    for line in lines:
        data = line.encode()
        if packet and len(packet) + 1 + len(data) > _PACKET:
            yield packet
            packet = b""
        packet = packet + b"\n" + data if packet else data
    if packet:
        yield packet
