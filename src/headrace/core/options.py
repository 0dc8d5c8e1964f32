"""What a task declares, and what one call may set differently."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Literal, get_args

from headrace.core import ids
from headrace.core.job import NO_OVERRIDES, Overrides, WireRetry
from headrace.core.limits import (
    DEFAULT_QUEUE,
    MAX_MS,
    RESULT_TTL,
    TIMEOUT,
    check_name,
    check_seconds,
)
from headrace.core.retry import Retry
from headrace.errors import ConfigError

RunIn = Literal["loop", "thread", "process"]
Duration = float | timedelta


class Unset:
    """Stands for "as the task says" where None has a meaning of its own."""

    def __repr__(self) -> str:
        return "UNSET"


UNSET = Unset()


@dataclass(frozen=True, slots=True)
class TaskOptions:
    """What `@app.task(...)` declares. Checked here, so that a wrong option fails at import."""

    name: str
    run_in: RunIn
    queue: str = DEFAULT_QUEUE
    retry: Retry = field(default_factory=Retry)
    timeout: float | None = TIMEOUT
    result_ttl: float = RESULT_TTL

    def __post_init__(self) -> None:
        where = f"task {self.name!r}: "
        check_name("task name", self.name)
        check_name(f"{where}queue", self.queue)
        if self.run_in not in get_args(RunIn):
            raise ConfigError(
                f"{where}run_in must be 'loop', 'thread' or 'process', not {self.run_in!r}"
            )
        if not isinstance(self.retry, Retry):
            raise ConfigError(f"{where}retry must be a Retry(...), not {self.retry!r}")
        if self.timeout is not None:
            check_seconds(f"{where}timeout", self.timeout, least=0.001)
        check_seconds(f"{where}result_ttl", self.result_ttl)


@dataclass(frozen=True, slots=True)
class SendOptions:
    """What `task.options(...)` sets for the calls made through it."""

    queue: str | None = None
    id: str | None = None
    delay_ms: int | None = None
    at_ms: int | None = None
    expires_in_ms: int | None = None
    expires_at_ms: int | None = None
    overrides: Overrides = NO_OVERRIDES

    def __bool__(self) -> bool:
        return self is not PLAIN

    def changed(
        self,
        *,
        delay: Duration | Unset = UNSET,
        at: datetime | Unset = UNSET,
        id: str | Unset = UNSET,
        queue: str | Unset = UNSET,
        retry: Retry | Unset = UNSET,
        timeout: Duration | Unset | None = UNSET,
        expires: Duration | datetime | Unset = UNSET,
        headers: Mapping[str, str] | Unset = UNSET,
    ) -> SendOptions:
        """These options with some of them set anew."""
        fields: dict[str, Any] = {}
        if not isinstance(delay, Unset):
            fields |= {"delay_ms": to_ms("delay", delay), "at_ms": None}
        if not isinstance(at, Unset):
            if fields:
                raise ConfigError("options(): give delay= or at=, not both")
            fields |= {"at_ms": _epoch_ms("at", at), "delay_ms": None}
        if not isinstance(id, Unset):
            ids.to_key(id)
            fields["id"] = id
        if not isinstance(queue, Unset):
            fields["queue"] = check_name("options(queue=)", queue)
        if isinstance(expires, datetime):
            fields |= {"expires_at_ms": _epoch_ms("expires", expires), "expires_in_ms": None}
        elif not isinstance(expires, Unset):
            fields |= {"expires_in_ms": to_ms("expires", expires), "expires_at_ms": None}
        return replace(self, **fields, overrides=self._overridden(retry, timeout, headers))

    def _overridden(
        self,
        retry: Retry | Unset,
        timeout: Duration | Unset | None,
        headers: Mapping[str, str] | Unset,
    ) -> Overrides:
        now = self.overrides
        wire_retry, wire_timeout, wire_headers = now.retry, now.timeout, now.headers
        if not isinstance(retry, Unset):
            if not isinstance(retry, Retry):
                raise ConfigError(f"options(retry=) must be a Retry(...), not {retry!r}")
            wire_retry = WireRetry.of(retry)
        if timeout is None:
            wire_timeout = 0.0
        elif not isinstance(timeout, Unset):
            wire_timeout = to_ms("timeout", timeout, least=0.001) / 1000
        if not isinstance(headers, Unset):
            wire_headers = _checked_headers(headers)
        return Overrides(wire_headers, wire_timeout, wire_retry)


PLAIN = SendOptions()


def to_ms(what: str, duration: Duration, *, least: float = 0.0) -> int:
    """Seconds or a timedelta as whole milliseconds, rounded up, so nothing happens early."""
    if isinstance(duration, timedelta):
        duration = duration.total_seconds()
    seconds = check_seconds(f"options({what}=)", duration, least=least)
    if seconds * 1000 > MAX_MS:
        raise ConfigError(
            f"options({what}=) must be at most {MAX_MS // 1000} seconds, not {seconds!r}"
        )
    return math.ceil(seconds * 1000)


def _epoch_ms(what: str, moment: object) -> int:
    if not isinstance(moment, datetime) or moment.tzinfo is None:
        raise ConfigError(f"options({what}=) must be a datetime with a time zone, not {moment!r}")
    return -int(-moment.timestamp() * 1000 // 1)


def _checked_headers(headers: object) -> dict[str, str]:
    if not isinstance(headers, Mapping) or not all(
        isinstance(item, str) and _can_be_encoded(item) for pair in headers.items() for item in pair
    ):
        raise ConfigError(f"options(headers=) must map text to text, not {headers!r}")
    return dict(headers)


def _can_be_encoded(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
