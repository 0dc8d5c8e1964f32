"""Puts the name of the worker into all log records that come from its event loop."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_worker: ContextVar[str] = ContextVar("headrace_worker", default="")
_LOGGERS = ("headrace.worker", "headrace.store", "headrace.audit", "headrace.runs")


@contextmanager
def named_in_log(worker: str) -> Iterator[None]:
    """Records of this context, and of all tasks made in it, have `worker` as a field."""
    before = _worker.set(worker)
    try:
        yield
    finally:
        _worker.reset(before)


def _add_worker(record: logging.LogRecord) -> bool:
    if (worker := _worker.get()) and not hasattr(record, "worker"):
        record.worker = worker
    return True


for _name in _LOGGERS:
    logging.getLogger(_name).addFilter(_add_worker)
