"""Pages for Prometheus: of a worker, of the parent of several, of a whole store."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from headrace.errors import ConfigError
from headrace.exposition.server import Page
from headrace.metrics.totals import Snapshot

try:
    from prometheus_client import CollectorRegistry
    from prometheus_client.exposition import choose_encoder, gzip_accepted
    from prometheus_client.registry import Collector

    from headrace.exposition import families
    from headrace.exposition.store_families import StoreWide, View, of_store, of_workers
except ModuleNotFoundError as error:
    if error.name != "prometheus_client":
        raise
    raise ConfigError("metrics need prometheus-client: pip install 'headrace[metrics]'") from None

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

    from headrace.app import Headrace
    from headrace.core.workers import Scaled

_stores: WeakKeyDictionary[Headrace, StoreWide] = WeakKeyDictionary()


def of_worker(
    snapshot: Snapshot, view: View | None, processes: Scaled | None, headers: Mapping[str, str]
) -> Page:
    """What a worker has counted, and the state of its store; of a parent, what its processes have,
    and how many they are."""
    own = families.of_process(snapshot)
    parent = () if processes is None else families.of_processes(processes)
    return _page(chain(own, parent, of_store(view)), headers)


async def of_fleet(app: Headrace, headers: Mapping[str, str] | None = None) -> Page:
    """What all workers of an app's store have counted since this process first asked, and the state
    of the store. `headers` are those of the request, in small letters: they choose the format and
    whether it is packed. A store that is away is told as `headrace_store_up 0`."""
    store = _stores.setdefault(app, StoreWide())
    view = await store.look(app, at_fleet=True)
    metrics = chain(families.of_fleet(store.fleet.counts), of_workers(view), of_store(view))
    return _page(metrics, headers or {})


class _Given(Collector):
    """What was collected already."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


def _page(metrics: Iterator[Metric], headers: Mapping[str, str]) -> Page:
    # Our own, so that nothing global is touched.
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Given(list(metrics)))
    encode: Callable[[Collector], bytes]
    encode, content_type = choose_encoder(headers.get("accept", ""))
    body = encode(registry)
    if gzip_accepted(headers.get("accept-encoding", "")):
        return Page(gzip.compress(body, 5), content_type, encoding="gzip")
    return Page(body, content_type)
