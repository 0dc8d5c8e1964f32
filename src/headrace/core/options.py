"""What a task declares, and what one call may set differently."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Literal, TypedDict, Unpack, get_args

import msgspec

from headrace.core import ids
from headrace.core.job import NO_OVERRIDES, Overrides, WireRetry
from headrace.core.limits import (
    DEFAULT_QUEUE,
    MAX_OVERRIDES,
    RESULT_TTL,
    TIMEOUT,
    check_name,
    check_seconds,
)
from headrace.core.retry import Retry
from headrace.errors import ConfigError

RunIn = Literal["loop", "thread", "process"]
Duration = float | timedelta


class Sending(TypedDict, total=False):
    """What `task.options(...)` takes: how one call differs from what its task declares."""

    delay: Duration
    at: datetime
    id: str
    queue: str
    retry: Retry
    timeout: Duration | None
    expires: Duration | datetime
    headers: Mapping[str, str]


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

    def changed(self, **changes: Unpack[Sending]) -> SendOptions:
        """These options with some of them set anew."""
        unknown = changes.keys() - Sending.__annotations__.keys()
        if unknown:
            raise ConfigError(
                f"options() has no {sorted(unknown)[0]!r}; it takes "
                f"{', '.join(Sending.__annotations__)}"
            )
        fields: dict[str, Any] = {**_when(changes), **_expiry(changes)}
        if "id" in changes:
            ids.to_key(changes["id"])
            fields["id"] = changes["id"]
        if "queue" in changes:
            fields["queue"] = check_name("options(queue=)", changes["queue"])
        return replace(self, **fields, overrides=_overridden(self.overrides, changes))


PLAIN = SendOptions()


def _when(changes: Sending) -> dict[str, int | None]:
    if "delay" in changes and "at" in changes:
        raise ConfigError("options(): give delay= or at=, not both")
    if "delay" in changes:
        return {"delay_ms": to_ms("delay", changes["delay"]), "at_ms": None}
    if "at" in changes:
        return {"at_ms": _epoch_ms("at", changes["at"]), "delay_ms": None}
    return {}


def _expiry(changes: Sending) -> dict[str, int | None]:
    if "expires" not in changes:
        return {}
    expires = changes["expires"]
    if isinstance(expires, datetime):
        return {"expires_at_ms": _epoch_ms("expires", expires), "expires_in_ms": None}
    return {"expires_in_ms": to_ms("expires", expires), "expires_at_ms": None}


def _overridden(now: Overrides, changes: Sending) -> Overrides:
    headers, timeout, retry = now.headers, now.timeout, now.retry
    if "headers" in changes:
        headers = _checked_headers(changes["headers"])
    if "timeout" in changes:
        limit = changes["timeout"]
        timeout = 0.0 if limit is None else to_ms("timeout", limit, least=0.001) / 1000
    if "retry" in changes:
        if not isinstance(changes["retry"], Retry):
            raise ConfigError(f"options(retry=) must be a Retry(...), not {changes['retry']!r}")
        retry = WireRetry.of(changes["retry"])
    overrides = Overrides(headers, timeout, retry)
    size = len(msgspec.msgpack.encode(overrides))
    if size > MAX_OVERRIDES:
        raise ConfigError(
            f"options(): headers and retry take {size:,} bytes, at most {MAX_OVERRIDES:,} travel"
        )
    return overrides


def to_ms(what: str, duration: Duration, *, least: float = 0.0) -> int:
    """Seconds or a timedelta as whole milliseconds, rounded up, so nothing happens early."""
    if isinstance(duration, timedelta):
        duration = duration.total_seconds()
    return math.ceil(check_seconds(f"options({what}=)", duration, least=least) * 1000)


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
