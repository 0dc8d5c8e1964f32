"""What a worker, a supervisor and a fleet have counted, as metrics."""

from __future__ import annotations

import math
import platform
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from headrace.core.job.tally import BUCKETS_US, KINDS, RUN, RUN_US, WAIT, WAIT_US
from headrace.core.queue_names import is_log, log_source
from headrace.core.sends import BYTES, FAILED, SENT, SIZE, SIZE_BUCKETS
from headrace.core.version import VERSION
from headrace.core.workers import Scaled
from headrace.metrics.family import Distribution, Family
from headrace.metrics.totals import ByTask, Presence, TotalsSnapshot, failures_in

_SECOND_US = 1_000_000
_BY_TASK = ("queue", "task")
_BATCH_BOUNDS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0)

Counts = Mapping[str, ByTask]


def worker_families(snapshot: TotalsSnapshot) -> Iterator[Family]:
    """The counts of a worker, or of all worker processes of a parent."""
    yield _jobs("jobs", "Outcomes of jobs that were written.", snapshot.counts)
    yield _histogram("job_run_seconds", "How long runs took.", snapshot.counts, RUN, RUN_US)
    yield _histogram(
        "job_wait_seconds",
        "How long jobs had waited before they ran.",
        snapshot.counts,
        WAIT,
        WAIT_US,
    )
    yield from _failures(snapshot)
    yield _sizes(
        "batch_size", "Jobs or events of one call of a batch task.", "task", snapshot.batches
    )
    yield from send_families(snapshot.sends)
    presence = snapshot.presence
    yield _gauge("jobs_running", "Jobs that are held now.", presence.running)
    yield _gauge("slots", "Jobs that can be held at once.", presence.slots)
    yield _counter(
        "redeliveries",
        "Jobs delivered again because their last holder did not settle them.",
        "queue",
        snapshot.redeliveries,
    )
    lost = Family("counter", "lost_leases", "Outcomes refused because the lease was lost.")
    lost.add((), presence.lost_leases)
    yield lost
    yield _counter(
        "store_errors", "Errors of the store, by operation.", "scope",
        snapshot.store_errors,
    )  # fmt: skip
    yield from _consumers(presence)
    built = Family("gauge", "build_info", "Always 1.", labels=("version", "python"))
    built.add((VERSION, platform.python_version()), 1)
    yield built


def send_families(sends: Mapping[str, Mapping[str, int]]) -> Iterator[Family]:
    """What a process has sent."""
    queues = {name: counts for name, counts in sends.items() if not is_log(name)}
    topics: dict[str, Counter[str]] = {}
    for name, counts in sends.items():
        if is_log(name):
            topics.setdefault(log_source(name)[0], Counter()).update(counts)
    yield from _sent("enqueue", "job", "queue", queues)
    yield from _sent("publish", "event", "topic", topics)


def _sent(
    verb: str, what: str, label: str, sends: Mapping[str, Mapping[str, int]]
) -> Iterator[Family]:
    sent = Family("counter", f"{verb}_{what}s", f"{what}s sent here.", (label, "outcome"))
    took = Family("histogram", f"{verb}_seconds", "How long sends to the store took.", (label,))
    size = Family("histogram", f"{verb}_bytes", f"Sizes of {what}s sent here.", (label,))
    for name, counts in sorted(sends.items()):
        sent.add((name, "ok"), counts.get(SENT, 0))
        sent.add((name, "failed"), counts.get(FAILED, 0))
        took.add((name,), _distribution(counts, RUN, BUCKETS_US, RUN_US, _SECOND_US))
        size.add((name,), _distribution(counts, SIZE, SIZE_BUCKETS, BYTES, 1))
    yield from (sent, took, size)


def _failures(snapshot: TotalsSnapshot) -> Iterator[Family]:
    failed = Family("counter", "failed_attempts", "Runs that failed.", (*_BY_TASK, "error"))
    dead = Family("counter", "dead", "Jobs that died.", (*_BY_TASK, "reason", "error"))
    attempts: Counter[tuple[str, str, str]] = Counter()
    for (queue, task, reason, error), count in sorted(failures_in(snapshot).items()):
        attempts[queue, task, error] += count
        if reason:
            dead.add((queue, task, reason, error), count)
    for labels, count in attempts.items():
        failed.add(labels, count)
    yield from (failed, dead)


def supervisor_families(processes: Scaled) -> Iterator[Family]:
    """The worker processes of a supervisor."""
    yield _gauge("worker_processes", "Worker processes that live.", processes.count)
    deaths = Family(
        "counter", "worker_deaths", "Worker processes that ended without being asked to."
    )
    deaths.add((), processes.replaced)
    yield deaths
    decisions = Family(
        "counter",
        "supervisor_decisions",
        "Changes to the number of worker processes.",
        labels=("direction", "reason"),
    )
    for direction, reasons in (("up", processes.ups), ("down", processes.downs)):
        for reason, count in sorted(reasons.items()):
            decisions.add((direction, reason), count)
    yield decisions


def fleet_families(counts: Counts) -> Iterator[Family]:
    """The counts of all workers, as the store keeps them."""
    yield _jobs("fleet_jobs", "Outcomes of jobs, of all workers.", counts)
    sent = Family("counter", "fleet_sent", "Jobs that were sent.", labels=_BY_TASK)
    for queue, task, named in _each(counts):
        if "sent" in named:
            sent.add((queue, task), named["sent"])
    yield sent
    yield _histogram(
        "fleet_run_seconds", "How long runs took, of all workers.", counts, RUN, RUN_US
    )
    yield _histogram(
        "fleet_wait_seconds",
        "How long jobs had waited before they ran, of all workers.",
        counts,
        WAIT,
        WAIT_US,
    )


def _consumers(presence: Presence) -> Iterator[Family]:
    living = Family("gauge", "consumers", "Consumers of subscriptions.", labels=("subscription",))
    deaths = Family("counter", "consumer_deaths", "Consumers that died.", labels=("subscription",))
    decisions = Family(
        "counter",
        "autoscaler_decisions",
        "Changes to the number of consumers.",
        labels=("subscription", "direction", "reason"),
    )
    for name, scaled in sorted(presence.consumers.items()):
        living.add((name,), scaled.count)
        deaths.add((name,), scaled.replaced)
        for direction, reasons in (("up", scaled.ups), ("down", scaled.downs)):
            for reason, count in sorted(reasons.items()):
                decisions.add((name, direction, reason), count)
    yield from (living, deaths, decisions)


def _gauge(name: str, text: str, value: float) -> Family:
    family = Family("gauge", name, text)
    family.add((), value)
    return family


def _counter(name: str, text: str, label: str, counts: Mapping[str, int]) -> Family:
    family = Family("counter", name, text, labels=(label,))
    for value, count in sorted(counts.items()):
        family.add((value,), count)
    return family


def _each(counts: Counts) -> Iterator[tuple[str, str, dict[str, int]]]:
    for queue, tasks in sorted(counts.items()):
        for task, named in sorted(tasks.items()):
            yield queue, task, named


def _jobs(name: str, text: str, counts: Counts) -> Family:
    family = Family("counter", name, text, labels=(*_BY_TASK, "outcome"))
    for queue, task, named in _each(counts):
        for outcome in KINDS:
            if outcome in named:
                family.add((queue, task, outcome), named[outcome])
    return family


def _histogram(name: str, text: str, counts: Counts, prefix: str, total: str) -> Family:
    family = Family("histogram", name, text, _BY_TASK)
    for queue, task, named in _each(counts):
        found = _distribution(named, prefix, BUCKETS_US, total, _SECOND_US)
        if found.buckets[-1][1]:
            family.add((queue, task), found)
    return family


def _distribution(
    counts: Mapping[str, int], prefix: str, bounds: Sequence[int], total: str, unit: int
) -> Distribution:
    """The counters of a histogram under `prefix` and their sum, with bounds in a larger unit."""
    buckets, below = [], 0
    for bound in bounds:
        below += counts.get(f"{prefix}{bound}", 0)
        # What is larger is counted in the last bucket.
        buckets.append((math.inf if bound == bounds[-1] else bound / unit, below))
    return Distribution(buckets, counts.get(total, 0) / unit)


def _sizes(name: str, text: str, label: str, sizes: Mapping[str, Mapping[str, int]]) -> Family:
    family = Family("histogram", name, text, (label,))
    for value, counts in sorted(sizes.items()):
        known = {int(size): count for size, count in counts.items()}
        bounds = (*_BATCH_BOUNDS, math.inf)
        buckets = [(most, sum(n for size, n in known.items() if size <= most)) for most in bounds]
        family.add((value,), Distribution(buckets, sum(size * n for size, n in known.items())))
    return family
