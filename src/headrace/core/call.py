"""A task with its arguments, not yet sent."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from headrace.core import ids
from headrace.core.constraints import NO_CONSTRAINTS, Constraints
from headrace.core.ids import JobKey
from headrace.core.job import Feed, Overrides, encode_envelope
from headrace.core.links import Links, R_co, Sent, Step
from headrace.core.options import PLAIN, SendOptions
from headrace.core.task_constraints import NO_LABELS, CallLabels, TaskConstraints
from headrace.errors import ArgumentError, ConfigError

if TYPE_CHECKING:
    from typing import Self


class Tick(msgspec.Struct, frozen=True, gc=False):
    """One time of a schedule: the job is added only if no job of this or a later time ever was."""

    schedule: str
    at_ms: int


class Child(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A job that waits for another to end, and what it does if that one ends badly."""

    queue: str
    key: JobKey
    runs_anyway: bool = False


class Parcel(msgspec.Struct, frozen=True, gc=False):
    """A job as a store takes it: due at once, `delay_ms` from the store's now, or at `at_ms`."""

    key: JobKey
    envelope: bytes
    delay_ms: int | None = None
    at_ms: int | None = None
    constraints: Constraints = NO_CONSTRAINTS
    parents: tuple[JobKey, ...] = ()
    """Jobs that must end first; its own time counts from then. Their results come with it, in
    this order."""
    children: tuple[Child, ...] = ()
    """Jobs, stored before this one, that wait for it."""
    tick: Tick | None = None

    @property
    def is_plain(self) -> bool:
        """Whether it needs nothing but to be put in line."""
        return (
            self.constraints is NO_CONSTRAINTS
            and not self.parents
            and not self.children
            and self.tick is None
        )


class Bond(msgspec.Struct, frozen=True):
    """What a flow gives to one of its jobs."""

    key: JobKey
    flow: JobKey
    feed: Feed
    parents: tuple[JobKey, ...]
    children: tuple[Child, ...]
    end_queue: str = ""
    graph: bytes = b""


class Call(Step[R_co]):
    """Arguments are encoded and checked when the call is made, so sending cannot fail over them.

    An `open` call lacks its first argument, which a flow brings; `room` is the payload of a call
    that can take one more first argument.
    """

    __slots__ = (
        "is_open",
        "is_plain",
        "labels",
        "links",
        "options",
        "payload",
        "queue",
        "returns",
        "room",
        "task",
        "task_constraints",
    )  # fmt: skip

    def __init__(
        self,
        task: str,
        queue: str,
        payload: bytes,
        returns: Any,
        options: SendOptions = PLAIN,
        task_constraints: TaskConstraints | None = None,
        labels: CallLabels | None = None,
        room: bytes | None = None,
        is_open: bool = False,
    ) -> None:
        self.task = task
        self.queue = options.queue or queue
        self.payload = payload
        self.returns = returns
        self.options = options
        self.task_constraints = task_constraints
        self.labels = labels
        self.room = room
        self.is_open = is_open
        self.is_plain = options is PLAIN and labels is None and not is_open
        self.links: Links | None = None

    @property
    def heads(self) -> tuple[Call[Any], ...]:
        return (self,)

    @property
    def ends(self) -> tuple[Call[Any], ...]:
        return (self,)

    def after(self, *parents: Step[Any] | Sent, if_failed: Literal["fail", "run"] = "fail") -> Self:
        """Have the job start only when others have ended: calls and flows, which are sent along
        with it, or jobs. If one of them fails, so does this one, unless `if_failed="run"`. Without
        its first argument, the call is given their result (of several, the list; None of one that
        failed). Changes the call, and returns it."""
        if if_failed not in ("fail", "run"):
            raise ConfigError(f"{self!r}: if_failed must be 'fail' or 'run', not {if_failed!r}")
        links = self._linked()
        for parent in parents:
            links.add(self, parent, if_failed == "run")
        return self

    def with_headers(self, headers: Mapping[str, str]) -> Self:
        """The same call with these headers beside those that it has."""
        beside = {**self.options.overrides.headers, **headers}
        return self.with_options(self.options.changed(headers=beside))

    def with_options(self, options: SendOptions) -> Self:
        """The same call with other options; none of them may change its constraints."""
        other = copy.copy(self)
        other.options = options
        other.is_plain = False
        return other

    def feed_from(self, step: Step[Any]) -> None:
        """Have the results of a step be this call's first argument, as in a chain."""
        self._linked().feed(self, step)

    def parcel(self, now_ms: int | None = None, bond: Bond | None = None) -> Parcel:
        """This call as a new job. `now_ms`, the store's time, is needed only where `needs_time`;
        `bond` where it is part of a flow."""
        if self.is_plain and bond is None:
            key = ids.new_key()
            return Parcel(key, encode_envelope(key, self.task, self.payload))
        return self._bound(now_ms, bond or self._alone())

    @property
    def needs_time(self) -> bool:
        """Whether the envelope holds a moment that must be taken from the store's clock."""
        return self.options.expires_in_ms is not None

    def new_key(self) -> JobKey:
        """The key of a job of this call."""
        return ids.new_key() if self.options.id is None else ids.to_key(self.options.id)

    def _alone(self) -> Bond:
        if self.links is not None:
            raise ConfigError(f"{self!r} waits for others; send it with app.enqueue()")
        if self.is_open:
            raise ArgumentError(
                self.task, "its first argument is missing, and no other call gives it one"
            )
        return Bond(self.new_key(), b"", "", (), ())

    def _bound(self, now_ms: int | None, bond: Bond) -> Parcel:
        options, waits = self.options, bool(bond.parents)
        payload = self.room if bond.feed and self.room is not None else self.payload
        envelope = encode_envelope(bond.key, self.task, payload, self._overrides(now_ms, bond))
        constraints, delay_ms = NO_CONSTRAINTS, options.delay_ms
        if self.task_constraints is not None and (self.labels is not None or waits):
            labels = self.labels or NO_LABELS
            constraints = self.task_constraints.of_job(self.queue, options, labels, waits)
            if delay_ms is None and options.at_ms is None:
                delay_ms = self.task_constraints.delay_ms(options, labels)
        return Parcel(
            bond.key, envelope, delay_ms, options.at_ms, constraints, bond.parents, bond.children
        )

    def _overrides(self, now_ms: int | None, bond: Bond) -> Overrides:
        options = self.options
        changes: dict[str, Any] = {}
        if options.expires_in_ms is not None and now_ms is not None:
            changes["expires_ms"] = now_ms + options.expires_in_ms
        elif options.expires_at_ms is not None:
            changes["expires_ms"] = options.expires_at_ms
        if options.id is not None:
            changes["sent_ms"] = now_ms
        if bond.flow:
            changes |= {"flow": bond.flow, "feed": bond.feed, "graph": bond.graph}
            if bond.end_queue != self.queue:
                changes["end_queue"] = bond.end_queue
        if not changes:
            return options.overrides
        return msgspec.structs.replace(options.overrides, **changes)

    def _linked(self) -> Links:
        if self.links is None:
            self.links, self.is_plain = Links(), False
        return self.links

    def __repr__(self) -> str:
        return f"<Call of {self.task!r} on {self.queue!r}>"
