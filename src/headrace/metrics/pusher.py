"""Hands the metrics of this process to a sink of the user's, every few seconds."""

from __future__ import annotations

import atexit
import inspect
import logging
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from headrace.core.bounds import check_seconds
from headrace.core.clock import Duration
from headrace.core.sends import Sends
from headrace.errors import ConfigError
from headrace.metrics.families import send_families, worker_families
from headrace.metrics.family import Family, MetricSample, samples_of
from headrace.metrics.totals import Totals

log = logging.getLogger("headrace.metrics")

MetricsSink = Callable[[Sequence[MetricSample]], object]


class MetricsPusher:
    """Calls a sink in a thread of its own, from the first use of the store until the process ends,
    and once more then. A sink that fails is logged, once until it works again, and harms nothing
    else."""

    def __init__(self, sink: MetricsSink, every: Duration, prefix: str, sends: Sends) -> None:
        self._sink = _checked(sink)
        self._every = check_seconds("every", every, least=0.1)
        self._prefix = prefix
        self._sends = sends
        sends.on = True
        self._totals: Totals | None = None
        self._trouble = ""
        self._ending = threading.Event()
        self._starting = threading.Lock()
        self._pid = 0

    def include(self, totals: Totals) -> None:
        """Push what a worker of this process counts, too."""
        self._totals = totals

    def start(self) -> None:
        """Begin, if that has not happened in this process: one that was forked begins anew."""
        with self._starting:
            if self._pid == os.getpid():
                return
            self._pid, self._ending = os.getpid(), threading.Event()
            threading.Thread(
                target=self._run, args=(self._ending,), name="headrace-metrics", daemon=True
            ).start()
            atexit.register(self.close)

    def close(self) -> None:
        """End, and push once more."""
        if self._pid == os.getpid() and not self._ending.is_set():
            self._ending.set()
            self.push()

    def push(self) -> None:
        """Hand the numbers of this moment to the sink."""
        try:
            self._sink(list(samples_of(self._families(), self._prefix)))
        except Exception as error:
            if repr(error) != self._trouble:
                said = "metrics could not be pushed: %r"
                log.warning(said, error, exc_info=error, extra={"error": repr(error)})
            self._trouble = repr(error)
        else:
            self._trouble = ""

    def _run(self, ending: threading.Event) -> None:
        while not ending.wait(self._every):
            self.push()

    def _families(self) -> Iterator[Family]:
        if self._totals is None:
            return send_families(self._sends.counts)
        return worker_families(self._totals.snapshot())


def _checked(sink: Any) -> MetricsSink:
    if not callable(sink) or inspect.iscoroutinefunction(sink):
        raise ConfigError(f"app.metrics() takes a plain function of samples, not {sink!r}")
    checked: MetricsSink = sink
    return checked
