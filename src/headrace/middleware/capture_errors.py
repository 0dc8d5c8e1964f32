"""Passes errors to a collector, such as Sentry."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

from headrace.errors import BatchError, TaskControl
from headrace.middleware.views import JobRun
from headrace.middleware.wrapping import Middleware, Proceed

log = logging.getLogger("headrace.runs")


class CaptureErrors(Middleware):
    """Calls `capture` with each exception that a task raises, while it is being handled:
    `app.middleware(CaptureErrors(sentry_sdk.capture_exception))`. Task control and cancellation
    are not errors. Nothing else changes, even if `capture` itself fails."""

    def __init__(self, capture: Callable[[BaseException], object]) -> None:
        self._capture = capture

    async def run(self, run: JobRun, proceed: Proceed) -> Any:
        """Changes nothing."""
        try:
            value = await proceed()
        except Exception as error:
            self._capture_all(error.errors.values() if isinstance(error, BatchError) else [error])
            raise
        if run.task.declared.batch and isinstance(value, list):
            self._capture_all(item for item in value if isinstance(item, BaseException))
        return value

    def _capture_all(self, errors: Iterable[BaseException]) -> None:
        for error in errors:
            if isinstance(error, TaskControl):
                continue
            try:
                self._capture(error)
            except Exception:
                log.exception("an error could not be captured", extra={"error": repr(error)})
