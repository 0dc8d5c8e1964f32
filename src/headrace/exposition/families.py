"""Counts as families of Prometheus metrics."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.metrics_core import Metric

from headrace.core.job.tally import BUCKETS_US, KINDS, RUN, RUN_US, WAIT, WAIT_US
from headrace.core.version import VERSION
from headrace.core.workers import Scaled
from headrace.metrics.totals import ByTask, Presence, TotalsSnapshot

_SECOND_US = 1_000_000
_BY_TASK = ("queue", "task")

Counts = Mapping[str, ByTask]


def worker_families(snapshot: TotalsSnapshot) -> Iterator[Metric]:
    """The counts of a worker, or of all worker processes of a parent."""
    yield _jobs("headrace_jobs", "Outcomes of jobs that were written.", snapshot.counts)
    yield _histogram(
        "headrace_job_run_seconds", "How long runs took.", snapshot.counts, RUN, RUN_US
    )
    yield _histogram(
        "headrace_job_wait_seconds",
        "How long jobs had waited before they ran.",
        snapshot.counts,
        WAIT,
        WAIT_US,
    )
    presence = snapshot.presence
    yield _gauge("headrace_jobs_running", "Jobs that are held now.", presence.running)
    yield _gauge("headrace_slots", "Jobs that can be held at once.", presence.slots)
    yield _counter(
        "headrace_redeliveries",
        "Jobs delivered again because their last holder did not settle them.",
        "queue",
        snapshot.redeliveries,
    )
    lost = CounterMetricFamily(
        "headrace_lost_leases", "Outcomes refused because the lease was lost."
    )
    lost.add_metric((), presence.lost_leases)
    yield lost
    yield _counter(
        "headrace_store_errors", "Errors of the store, by operation.", "scope",
        snapshot.store_errors,
    )  # fmt: skip
    yield from _consumers(presence)
    built = GaugeMetricFamily("headrace_build_info", "Always 1.", labels=("version", "python"))
    built.add_metric((VERSION, platform.python_version()), 1)
    yield built


def supervisor_families(processes: Scaled) -> Iterator[Metric]:
    """The worker processes of a supervisor."""
    yield _gauge("headrace_worker_processes", "Worker processes that live.", processes.count)
    deaths = CounterMetricFamily(
        "headrace_worker_deaths", "Worker processes that ended without being asked to."
    )
    deaths.add_metric((), processes.replaced)
    yield deaths
    decisions = CounterMetricFamily(
        "headrace_supervisor_decisions",
        "Changes to the number of worker processes.",
        labels=("direction", "reason"),
    )
    for direction, reasons in (("up", processes.ups), ("down", processes.downs)):
        for reason, count in sorted(reasons.items()):
            decisions.add_metric((direction, reason), count)
    yield decisions


def fleet_families(counts: Counts) -> Iterator[Metric]:
    """The counts of all workers, as the store keeps them."""
    yield _jobs("headrace_fleet_jobs", "Outcomes of jobs, of all workers.", counts)
    sent = CounterMetricFamily("headrace_fleet_sent", "Jobs that were sent.", labels=_BY_TASK)
    for queue, task, named in _each(counts):
        if "sent" in named:
            sent.add_metric((queue, task), named["sent"])
    yield sent
    yield _histogram(
        "headrace_fleet_run_seconds", "How long runs took, of all workers.", counts, RUN, RUN_US
    )
    yield _histogram(
        "headrace_fleet_wait_seconds",
        "How long jobs had waited before they ran, of all workers.",
        counts,
        WAIT,
        WAIT_US,
    )


def _consumers(presence: Presence) -> Iterator[Metric]:
    living = GaugeMetricFamily(
        "headrace_consumers", "Consumers of subscriptions.", labels=("subscription",)
    )
    deaths = CounterMetricFamily(
        "headrace_consumer_deaths", "Consumers that died.", labels=("subscription",)
    )
    decisions = CounterMetricFamily(
        "headrace_autoscaler_decisions",
        "Changes to the number of consumers.",
        labels=("subscription", "direction", "reason"),
    )
    for name, scaled in sorted(presence.consumers.items()):
        living.add_metric((name,), scaled.count)
        deaths.add_metric((name,), scaled.replaced)
        for direction, reasons in (("up", scaled.ups), ("down", scaled.downs)):
            for reason, count in sorted(reasons.items()):
                decisions.add_metric((name, direction, reason), count)
    yield from (living, deaths, decisions)


def _gauge(name: str, text: str, value: float) -> Metric:
    family = GaugeMetricFamily(name, text)
    family.add_metric((), value)
    return family


def _counter(name: str, text: str, label: str, counts: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily(name, text, labels=(label,))
    for value, count in sorted(counts.items()):
        family.add_metric((value,), count)
    return family


def _each(counts: Counts) -> Iterator[tuple[str, str, dict[str, int]]]:
    for queue, tasks in sorted(counts.items()):
        for task, named in sorted(tasks.items()):
            yield queue, task, named


def _jobs(name: str, text: str, counts: Counts) -> Metric:
    family = CounterMetricFamily(name, text, labels=(*_BY_TASK, "outcome"))
    for queue, task, named in _each(counts):
        for outcome in KINDS:
            if outcome in named:
                family.add_metric((queue, task, outcome), named[outcome])
    return family


def _histogram(name: str, text: str, counts: Counts, prefix: str, total: str) -> Metric:
    family = HistogramMetricFamily(name, text, labels=_BY_TASK)
    for queue, task, named in _each(counts):
        buckets: list[tuple[str, float]] = []
        below = 0
        for bound in BUCKETS_US:
            below += named.get(f"{prefix}{bound}", 0)
            # Longer times are counted in the last bucket.
            most = "+Inf" if bound == BUCKETS_US[-1] else repr(bound / _SECOND_US)
            buckets.append((most, below))
        if below:
            family.add_metric((queue, task), buckets, named.get(total, 0) / _SECOND_US)
    return family
