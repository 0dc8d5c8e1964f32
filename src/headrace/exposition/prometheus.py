"""Prometheus pages: of a worker, of a supervisor, of a whole store."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from headrace.errors import ConfigError
from headrace.exposition.server import HttpResponse
from headrace.exposition.store_families import (
    StoreReader,
    StoreState,
    capacity_families,
    store_families,
)
from headrace.metrics import families
from headrace.metrics.family import Distribution, Family, le
from headrace.metrics.totals import TotalsSnapshot

try:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import (
        CounterMetricFamily,
        GaugeMetricFamily,
        HistogramMetricFamily,
    )
    from prometheus_client.exposition import choose_encoder, gzip_accepted
    from prometheus_client.registry import Collector
except ModuleNotFoundError as error:
    if error.name != "prometheus_client":
        raise
    raise ConfigError("metrics need prometheus-client: pip install 'headrace[metrics]'") from None

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

    from headrace.core.workers import Scaled
    from headrace.exposition.health import MonitoredApp

_readers: WeakKeyDictionary[MonitoredApp, StoreReader] = WeakKeyDictionary()


def worker_metrics(
    snapshot: TotalsSnapshot,
    state: StoreState | None,
    processes: Scaled | None,
    headers: Mapping[str, str],
    prefix: str,
) -> HttpResponse:
    """The counts of a worker and the state of its store; with `processes`, of a supervisor."""
    own = families.worker_families(snapshot)
    parent = () if processes is None else families.supervisor_families(processes)
    return _page(chain(own, parent, store_families(state)), headers, prefix)


async def fleet_metrics(
    app: MonitoredApp, headers: Mapping[str, str] | None = None
) -> HttpResponse:
    """The counts of all workers of an app's store since this process first asked, and the state of
    the store.

    `headers` are those of the request, with lower-case names: they choose the format and gzip. A
    store that does not answer is `headrace_store_up 0`, not an error.
    """
    reader = _readers.setdefault(app, StoreReader())
    state = await reader.read(app.admin, fleet=True)
    fleet = families.fleet_families(reader.fleet.counts)
    found = chain(fleet, capacity_families(state), store_families(state))
    return _page(found, headers or {}, app.metrics_prefix)


def send_collector(app: MonitoredApp) -> Collector:
    """What this process sends from now on, for a registry of prometheus-client's, such as that of
    a web application: `REGISTRY.register(send_collector(app))`."""
    app.sends.on = True
    return FamilyCollector(lambda: families.send_families(app.sends.counts), app.metrics_prefix)


class FamilyCollector(Collector):
    """Families, as a registry of prometheus-client takes them."""

    def __init__(self, collect: Callable[[], Iterable[Family]], prefix: str) -> None:
        self._collect = collect
        self._prefix = prefix

    def collect(self) -> Iterator[Metric]:
        return (_metric(family, self._prefix) for family in self._collect())


def _metric(family: Family, prefix: str) -> Metric:
    metric: Any = _TYPES[family.kind](f"{prefix}_{family.name}", family.text, labels=family.labels)
    for labels, value in family.values:
        if isinstance(value, Distribution):
            buckets = [(le(most), count) for most, count in value.buckets]
            metric.add_metric(labels, buckets, value.total)
        else:
            metric.add_metric(labels, value)
    found: Metric = metric
    return found


_TYPES: dict[str, Any] = {
    "counter": CounterMetricFamily,
    "gauge": GaugeMetricFamily,
    "histogram": HistogramMetricFamily,
}


def _page(found: Iterable[Family], headers: Mapping[str, str], prefix: str) -> HttpResponse:
    # Not the global registry, which is the user's.
    registry = CollectorRegistry(auto_describe=False)
    registry.register(FamilyCollector(partial(list, found), prefix))
    encode: Callable[[Collector], bytes]
    encode, content_type = choose_encoder(headers.get("accept", ""))
    body = encode(registry)
    if gzip_accepted(headers.get("accept-encoding", "")):
        return HttpResponse(gzip.compress(body, 5), content_type, encoding="gzip")
    return HttpResponse(body, content_type)
