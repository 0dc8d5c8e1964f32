"""What `app.audit(...)` declares, and its trail in a running worker."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, Literal, get_args

import msgspec

from headrace.audit.record import AuditRecord
from headrace.audit.sinks import (
    AsyncSink,
    LoggerSink,
    Sink,
    ThreadSink,
    TopicSink,
    Write,
    Writing,
)
from headrace.client.topic.topic import Topic
from headrace.client.topic.topic_definition import TopicDefinition
from headrace.core.bounds import check_seconds
from headrace.core.job.failure import describe
from headrace.core.task.signature import is_async
from headrace.errors import ConfigError

log = logging.getLogger("headrace.audit")

OnSinkError = Literal["keep", "fail"]
Target = Topic[AuditRecord] | logging.Logger | Write

TIMEOUT = 5.0
_COMPLAIN_EVERY = 10.0


class Audit(msgspec.Struct, frozen=True):
    """Where records go, which ones, and what happens if one cannot be written. Checked here, so
    that a wrong option fails at import."""

    sink: Target
    on_error: OnSinkError = "keep"
    timeout: float | None = None
    payloads: bool = False
    only: Callable[[AuditRecord], bool] | None = None

    def __post_init__(self) -> None:
        _check_sink(self.sink)
        if self.on_error not in get_args(OnSinkError):
            raise ConfigError(f"audit(on_error=) must be 'keep' or 'fail', not {self.on_error!r}")
        if self.timeout is not None:
            check_seconds("audit(timeout=)", self.timeout, least=0.001)
            if isinstance(self.sink, logging.Logger):
                raise ConfigError(
                    "audit(timeout=) is not for a logger, which is called in the worker's loop: "
                    "give its handlers a queue, or audit to a function that logs"
                )
        only: object = self.only
        if only is not None and (not callable(only) or is_async(only)):
            raise ConfigError(
                f"audit(only=) must be a plain function of the record, not {self.only!r}"
            )

    @property
    def patience(self) -> float:
        """Seconds that the sink has for one record."""
        return TIMEOUT if self.timeout is None else self.timeout

    @property
    def name(self) -> str:
        """The sink as people know it."""
        if isinstance(self.sink, Topic):
            return f"topic {self.sink.name!r}"
        if isinstance(self.sink, logging.Logger):
            return f"logger {self.sink.name!r}"
        return f"function {getattr(self.sink, '__qualname__', None) or repr(self.sink)}"

    def opened(self) -> Sink:
        """The sink, for a worker in the running loop."""
        sink: Any = self.sink
        if isinstance(sink, Topic):
            return TopicSink(sink)
        if isinstance(sink, logging.Logger):
            return LoggerSink(sink)
        return AsyncSink(sink) if is_async(sink) else ThreadSink(sink)


def _check_sink(sink: object) -> None:
    if isinstance(sink, Topic):
        if not is_trail(sink):
            raise ConfigError(
                f"audit() takes a topic of AuditRecord, and {sink.name!r} is of others: declare "
                "one with app.topic(…, AuditRecord)"
            )
    elif not isinstance(sink, logging.Logger) and not callable(sink):
        raise ConfigError(f"audit() takes a topic, a logger or a function, not {sink!r}")


def is_trail(topic: TopicDefinition[Any]) -> bool:
    """Whether a topic holds records; deliveries of those are not recorded."""
    return topic.event_type is AuditRecord


class Trail:
    """One audit of a running worker."""

    def __init__(self, audit: Audit) -> None:
        self.audit = audit
        self._sink = audit.opened()
        self._quiet_until = 0.0
        self._unsaid = 0

    def write(self, record: AuditRecord, payload: bytes | None) -> Writing | None:
        """Begin to write a record, if it is wanted; may raise whatever the sink does."""
        if self.audit.only is not None and not self.audit.only(record):
            return None
        if self.audit.payloads and payload is not None:
            record = msgspec.structs.replace(record, payload=payload)
        return self._sink.write(record)

    def complain(self, error: BaseException) -> None:
        """Log a failure of the sink; many in a short time are counted in one line."""
        self._unsaid += 1
        now = time.monotonic()
        if now < self._quiet_until:
            return
        self._quiet_until = now + _COMPLAIN_EVERY
        then = "those deliveries fail" if self.audit.on_error == "fail" else "outcomes stand"
        kind, text, _ = describe(error)
        log.error(
            "%d record(s) could not be written to %s, and %s: %s: %s",
            self._unsaid,
            self.audit.name,
            then,
            kind,
            text,
            extra={"audit": self.audit.name, "count": self._unsaid},
        )
        self._unsaid = 0

    def close(self) -> None:
        self._sink.close()
        if self._unsaid:
            log.error(
                "%d more could not be written to %s",
                self._unsaid,
                self.audit.name,
                extra={"audit": self.audit.name, "count": self._unsaid},
            )
