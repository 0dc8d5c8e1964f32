"""What a subscription declares, and which of its options contradict each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypedDict, get_args

import msgspec

from headrace.core.bounds import check_count, check_flag
from headrace.core.clock import Duration
from headrace.core.job.retry import OnTimeout, Retry
from headrace.core.topic.topic import Place, check_place
from headrace.errors import ConfigError

Ack = Literal["success", "receive", "manual"]
OnFailure = Literal["block", "skip", "fail_key"]
Consumers = int | tuple[int, int]


class SubscribeKwargs(TypedDict, total=False):
    """What `topic.subscribe(...)` takes beside the group, `batch` and `max_wait`."""

    retry: Retry | None
    timeout: Duration | None
    on_timeout: OnTimeout
    max_defers: int | None
    ack: Ack
    """When an event is acknowledged: after the function has returned ("success", the default),
    before it begins ("receive"), or by its `Delivery` ("manual")."""
    ordered: bool
    """Whether events of one key are handled one after the other; False unless said."""
    on_failure: OnFailure | None
    """What a dead event of an ordered group does to later ones of its key: "block" them, the
    default, "skip" it, or "fail_key", which fails them too."""
    max_in_flight: int | None
    """How many events one consumer holds at a time; the worker's concurrency unless said."""
    begin: Place
    """Where a new group begins: "new", the default, "start", the id of an event, or a time."""
    consumers: Consumers | None
    """How many consumers each worker process has: a number, 1 unless said, or the least and the
    most."""
    name: str | None
    """The name in logs, counters and AsyncAPI; `topic/group` unless said."""
    require_key: bool
    """Whether the topic refuses events without a key, for the sake of this group; False unless
    said."""


class SubscribeTopicsKwargs(SubscribeKwargs, total=False):
    """What `app.subscribe(...)` takes beside topics, group, `event`, `batch` and `max_wait`."""

    on_dead: Callable[..., Any] | None
    """A function that is called with each event that the group gives up, as for `topic.on_dead`."""


class SubscribeAnyKwargs(SubscribeKwargs, total=False):
    """All that `topic.subscribe(...)` takes beside the group."""

    batch: int | None
    max_wait: Duration


class BroadcastKwargs(TypedDict, total=False):
    """What `topic.broadcast(...)` takes."""

    timeout: Duration | None
    max_in_flight: int | None
    """How many events a process handles at a time; 1 unless said."""
    name: str | None
    """The name in logs and counters; the function's unless said."""


class SubscriptionOptions(msgspec.Struct, frozen=True):
    """What a group wants of its topic, beside what any task declares."""

    group: str
    ack: Ack = "success"
    ordered: bool = False
    on_failure: OnFailure | None = None
    max_in_flight: int | None = None
    begin: Place = "new"
    consumers: Consumers | None = None
    require_key: bool = False
    """Whether the topic takes no event without a key."""
    broadcast: bool = False
    """Each process gets each event, from now on; `group` is only a name."""

    @property
    def failing(self) -> OnFailure:
        """What happens to later events of a key after one of its events went dead."""
        return self.on_failure or ("block" if self.ordered else "skip")

    @property
    def scale(self) -> tuple[int, int] | None:
        """The least and the largest number of consumers; None if they are not scaled."""
        if self.consumers is None or isinstance(self.consumers, tuple):
            return self.consumers
        return self.consumers, self.consumers


def check_subscription(
    where: str,
    wants: SubscriptionOptions,
    *,
    keyed: bool,
    batch: int | None,
    retry: Retry | None,
    now_ms: int,
) -> None:
    """Refuse options that contradict each other; `keyed` says that the topic makes the key of each
    event."""
    if wants.ack not in get_args(Ack):
        raise ConfigError(f"{where}ack must be 'success', 'receive' or 'manual', not {wants.ack!r}")
    _check_order(where, wants, keyed)
    _check_ack(where, wants, batch, retry)
    _check_flow(where, wants, batch)
    check_place(f"{where}begin", wants.begin, now_ms)


def check_patience(where: str, timeout: float | None, gone_after_ms: int) -> None:
    """Refuse a group whose workers would count as gone while all their slots are taken: a worker
    shows that it is alive by reading, and a busy one does not read."""
    if timeout is not None and timeout * 1000 >= gone_after_ms:
        raise ConfigError(
            f"{where}timeout={timeout:g} is no less than the topic's group_gone_after of "
            f"{gone_after_ms / 1000:g} s: a worker that is busy for that long would count as gone, "
            "and events that it has still to handle could go; change one of them"
        )


def _check_order(where: str, wants: SubscriptionOptions, keyed: bool) -> None:
    check_flag(f"{where}ordered", wants.ordered)
    if check_flag(f"{where}require_key", wants.require_key) and not wants.ordered:
        raise ConfigError(
            f"{where}require_key=True is for the order of each key: it needs ordered=True; or say "
            "it of the topic, app.topic(…, require_key=True)"
        )
    if wants.on_failure is not None:
        if wants.on_failure not in get_args(OnFailure):
            raise ConfigError(
                f"{where}on_failure must be 'block', 'skip' or 'fail_key', not {wants.on_failure!r}"
            )
        if not wants.ordered:
            raise ConfigError(
                f"{where}on_failure says what follows in order: it needs ordered=True"
            )
    if wants.ordered and not keyed:
        raise ConfigError(
            f"{where}ordered=True keeps the order of each key: give the topic one, "
            "app.topic(…, key=lambda event: …). publish(key=…) alone is not enough: one publisher "
            "that leaves it out would break the order unseen, unless the topic has require_key=True"
        )


def _check_ack(
    where: str, wants: SubscriptionOptions, batch: int | None, retry: Retry | None
) -> None:
    if wants.ack == "success":
        return
    if batch is not None:
        raise ConfigError(
            f"{where}ack={wants.ack!r} does not go with batch=: a batch is settled when its "
            "function returns; raise BatchError for the events that failed"
        )
    if wants.ack == "receive":
        if retry is not None:
            raise ConfigError(
                f"{where}ack='receive' lets go of an event before it is handled, so it is never "
                "retried: leave retry= out, or use ack='success'"
            )
        if wants.ordered:
            raise ConfigError(
                f"{where}ack='receive' lets the next event of a key go before this one is "
                "handled: with ordered=True use ack='success' or 'manual'"
            )


def _check_flow(where: str, wants: SubscriptionOptions, batch: int | None) -> None:
    if wants.max_in_flight is not None:
        most = check_count(f"{where}max_in_flight", wants.max_in_flight)
        if batch is not None and most < batch:
            raise ConfigError(
                f"{where}max_in_flight={most} is less than batch={batch}: no batch would be full"
            )
    if wants.consumers is None:
        return
    if not isinstance(wants.consumers, int) and not _is_pair(wants.consumers):
        raise ConfigError(
            f"{where}consumers must be a number or (least, most), not {wants.consumers!r}"
        )
    least, most = wants.scale or (1, 1)
    check_count(f"{where}consumers", least)
    if check_count(f"{where}consumers", most) < least:
        raise ConfigError(f"{where}consumers=({least}, {most}): the least is more than the most")


def _is_pair(value: object) -> bool:
    return isinstance(value, tuple) and len(value) == 2
