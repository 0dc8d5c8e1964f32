"""What one call may set differently from what its task declares."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from datetime import datetime
from typing import Any, TypedDict, Unpack

import msgspec

from headrace.core.bounds import MAX_OVERRIDES, MAX_TAGS, check_count, check_label
from headrace.core.clock import Duration, epoch_ms, to_ms
from headrace.core.confirming import UNCONFIRMED, Confirm, Confirming, read_confirm
from headrace.core.foreign_words import CALL_OPTIONS
from headrace.core.job import ids
from headrace.core.job.constraints import MAX_PRIORITY
from headrace.core.job.envelope import NO_BOUND, NO_OVERRIDES, Overrides, WireRetry
from headrace.core.job.retry import OnTimeout, Retry, check_on_timeout, check_timeouts
from headrace.core.queue_names import check_queue
from headrace.core.task.uniqueness import AS_DECLARED, Uniqueness
from headrace.core.wrong_use import unknown_option
from headrace.errors import ConfigError


class JobOptions(TypedDict, total=False):
    """What both `@app.task(...)` and `task.options(...)` take."""

    queue: str
    """The queue that jobs wait in; "default" unless said. Some worker must read it."""
    priority: int
    """From 0, the default, to 100: within a queue, a higher one goes first."""
    unique_for: Duration
    """How long after its end a unique job still keeps others of its name away: seconds or a
    timedelta; 0, so not at all, unless said."""
    debounce: Duration
    """Sent again within this time, the job starts that much later, with the newest arguments,
    instead of twice: seconds or a timedelta. None unless said."""


class SendKwargs(JobOptions, total=False):
    """What `task.options(...)` takes: how one call differs from what its task declares."""

    delay: Duration
    """How long from now, by the store's clock, the job may start: seconds or a timedelta."""
    at: datetime
    """When the job may start: an aware datetime. One in the past means now."""
    id: str
    """An id of your own, 1 to 256 bytes of printable text. One that the store still knows in this
    queue is not added again."""
    retry: Retry
    """What happens after a failure, instead of the task's `retry`: a plain `Retry(...)`, for only
    its parameters travel."""
    timeout: Duration | None
    """Seconds, or a timedelta, that one run may take, instead of the task's; None for no limit."""
    on_timeout: OnTimeout
    """"retry", "dead" or "defer", instead of the task's."""
    max_defers: int | None
    """How often the job may be deferred before it is dead, instead of the task's; None for any
    number."""
    expires: Duration | datetime
    """When the job may no longer start, and is dead as `expired` instead: seconds or a timedelta
    from now, or an aware datetime."""
    headers: Mapping[str, str]
    """Texts by name that travel with the job; the function reads them as `ctx.headers`."""
    tags: Sequence[str]
    """Up to 32 texts by which people find the job."""
    key: str
    """Jobs of one key run one after the other, as they were sent, or as many at a time as the task
    says."""
    unique: bool | str
    """True or False, or the name that is to be unique among the jobs of the task."""
    rate_key: str
    """The text whose `rate` the job counts for."""
    batch_key: str
    """The key of the batch that the job gathers in."""
    confirm: Confirm | None
    """"replicated" or "disk": the send returns when a Redis replica, or the disk, has the job."""


def option_hint(task: str, unknown: Mapping[str, object]) -> str:
    """For arguments that a function does not take: where they go, as far as they are options of a
    call; else empty."""
    words = {name: name if name in SendKwargs.__annotations__ else _meant(name) for name in unknown}
    options = [f"{words[name]}={_brief(unknown[name])}" for name in unknown if words[name]]
    call = f"{task.rpartition('.')[2]}.options({', '.join(options)}).enqueue(…)"
    return f"; options go before: {call}" if options else ""


def _meant(name: str) -> str:
    found = re.fullmatch(r"write (\w+)=….*", str(CALL_OPTIONS.get(name)))
    return found[1] if found else ""


def _brief(value: object) -> str:
    return repr(value) if isinstance(value, int | float | str) and len(repr(value)) < 40 else "…"


class SendOptions(msgspec.Struct, frozen=True):
    """What `task.options(...)` sets for the calls made through it."""

    queue: str | None = None
    id: str | None = None
    delay_ms: int | None = None
    at_ms: int | None = None
    expires_in_ms: int | None = None
    expires_at_ms: int | None = None
    priority: int | None = None
    key: str = ""
    unique: Uniqueness = AS_DECLARED
    rate_key: str = ""
    batch_key: str = ""
    confirm: Confirming = UNCONFIRMED
    overrides: Overrides = NO_OVERRIDES

    def __bool__(self) -> bool:
        return self is not PLAIN

    @property
    def constrains(self) -> bool:
        """Whether any of them is a constraint."""
        unique = self.unique.by or self.unique.debounce_ms
        return bool(self.key or unique) or self.priority is not None

    def changed(self, **changes: Unpack[SendKwargs]) -> SendOptions:
        """These options with some of them changed."""
        unknown = changes.keys() - SendKwargs.__annotations__.keys()
        if unknown:
            known, name = SendKwargs.__annotations__, sorted(unknown)[0]
            raise unknown_option("options()", name, known, CALL_OPTIONS, changes.get(name))
        new: dict[str, Any] = {**_when(changes), **_expiry(changes)}
        if "id" in changes:
            ids.to_id(changes["id"])
            new["id"] = changes["id"]
        if "queue" in changes:
            new["queue"] = check_queue("options(queue=)", changes["queue"])
        if "confirm" in changes:
            new["confirm"] = read_confirm("options(confirm=)", changes["confirm"])
        new |= _constraints(self.unique, changes)
        options = msgspec.structs.replace(
            self, **new, overrides=_overridden(self.overrides, changes)
        )
        options._check_that_it_can_start()
        return options

    def _check_that_it_can_start(self) -> None:
        late = _is_late(self.delay_ms, self.expires_in_ms) or _is_late(
            self.at_ms, self.expires_at_ms
        )
        if late:
            raise ConfigError(
                "options(): such a job expires before it may start: expires= must be after delay= "
                "or at="
            )


PLAIN = SendOptions()


def sent_as(content: str) -> SendOptions:
    """The options of a task whose payloads have this content type."""
    return SendOptions(overrides=Overrides(content=content)) if content else PLAIN


def _is_late(start_ms: int | None, expires_ms: int | None) -> bool:
    return start_ms is not None and expires_ms is not None and start_ms >= expires_ms


def check_priority(what: str, priority: object) -> int:
    """`priority` if it is one."""
    number = check_count(what, priority, least=0)
    if number > MAX_PRIORITY:
        raise ConfigError(f"{what} must be from 0 to {MAX_PRIORITY}, not {priority!r}")
    return number


def _constraints(unique: Uniqueness, changes: SendKwargs) -> dict[str, Any]:
    """The checked options that become constraints of the job."""
    new: dict[str, Any] = {"unique": unique.changed(changes)}
    if "priority" in changes:
        new["priority"] = check_priority("options(priority=)", changes["priority"])
    if "key" in changes:
        new["key"] = check_label("options(key=)", changes["key"])
    if "rate_key" in changes:
        new["rate_key"] = check_label("options(rate_key=)", changes["rate_key"])
    if "batch_key" in changes:
        new["batch_key"] = check_label("options(batch_key=)", changes["batch_key"])
    return new


def _when(changes: SendKwargs) -> dict[str, int | None]:
    if "delay" in changes and "at" in changes:
        raise ConfigError("options(): give delay= or at=, not both")
    if "delay" in changes:
        return {"delay_ms": to_ms("options(delay=)", changes["delay"]), "at_ms": None}
    if "at" in changes:
        return {"at_ms": epoch_ms("options(at=)", changes["at"]), "delay_ms": None}
    return {}


def _expiry(changes: SendKwargs) -> dict[str, int | None]:
    if "expires" not in changes:
        return {}
    expires = changes["expires"]
    if isinstance(expires, datetime):
        return {"expires_at_ms": epoch_ms("options(expires=)", expires), "expires_in_ms": None}
    return {"expires_in_ms": to_ms("options(expires=)", expires), "expires_at_ms": None}


def _overridden(now: Overrides, changes: SendKwargs) -> Overrides:
    headers, timeout, retry, tags = now.headers, now.timeout, now.retry, now.tags
    on_timeout, max_defers = now.on_timeout, now.max_defers
    check_timeouts("options(): ", changes)
    if "max_defers" in changes:
        max_defers = _checked_defers(changes["max_defers"])
    if "on_timeout" in changes:
        on_timeout = check_on_timeout("options(on_timeout=)", changes["on_timeout"])
    if "tags" in changes:
        tags = _checked_tags(changes["tags"])
    if "headers" in changes:
        headers = _checked_headers(changes["headers"])
    if "timeout" in changes:
        limit = changes["timeout"]
        timeout = 0.0 if limit is None else to_ms("options(timeout=)", limit, least=0.001) / 1000
    if "retry" in changes:
        if not isinstance(changes["retry"], Retry):
            raise ConfigError(f"options(retry=) must be a Retry(...), not {changes['retry']!r}")
        retry = WireRetry.of(changes["retry"])
    overrides = msgspec.structs.replace(
        now,
        headers=headers,
        timeout=timeout,
        retry=retry,
        tags=tags,
        on_timeout=on_timeout,
        max_defers=max_defers,
    )
    size = len(msgspec.msgpack.encode(overrides))
    if size > MAX_OVERRIDES:
        raise ConfigError(
            f"options(): headers, tags and retry take {size:,} bytes, at most {MAX_OVERRIDES:,} "
            "travel"
        )
    return overrides


def _checked_defers(given: object) -> int:
    return NO_BOUND if given is None else check_count("options(max_defers=)", given, least=0)


def _checked_tags(tags: object) -> tuple[str, ...]:
    if isinstance(tags, str) or not isinstance(tags, Sequence | Set):
        raise ConfigError(f"options(tags=) must be a list of texts, not {tags!r}")
    found = tuple(dict.fromkeys(check_label("options(tags=)", tag) for tag in tags))
    if len(found) > MAX_TAGS:
        raise ConfigError(f"options(tags=) has {len(found)} tags, at most {MAX_TAGS} are allowed")
    return found


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
