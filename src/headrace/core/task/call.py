"""A call: a task with its arguments, not yet sent, and what it waits for."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Generic, Literal, Protocol, Self, TypeAlias, TypeVar

from msgspec.structs import replace

from headrace.core.job import ids
from headrace.core.job.capacity import Runner
from headrace.core.job.constraints import NO_CONSTRAINTS, in_flow
from headrace.core.job.envelope import NO_OVERRIDES, Feed, Overrides, encode_envelope
from headrace.core.job.ids import JobId
from headrace.core.job.parcel import FlowMembership, Parcel
from headrace.core.payload.packing import Packer, packed
from headrace.core.task.constraints import NO_LABELS, CallLabels, TaskConstraints
from headrace.core.task.send_options import PLAIN, SendOptions
from headrace.core.wrong_use import not_awaitable
from headrace.errors import ArgumentError, ConfigError

R_co = TypeVar("R_co", covariant=True)


class SentJob(Protocol):
    """The handle of a job that was sent before."""

    job_id: JobId


Parent: TypeAlias = "Call[Any] | SentJob"


@not_awaitable("a call is not sent yet: write `await task.enqueue(…)` or `await app.enqueue(call)`")
class Step(ABC, Generic[R_co]):
    """What can be sent, and waited for: a call, or a flow of them."""

    __slots__ = ()
    is_plain = False

    @property
    @abstractmethod
    def heads(self) -> tuple[Call[Any], ...]:
        """The calls that start first."""

    @property
    @abstractmethod
    def ends(self) -> tuple[Call[Any], ...]:
        """The calls whose results are its result."""

    @property
    def gives_list(self) -> bool:
        """Whether its result is the list of the results of its ends."""
        return False

    def _given(self, first: object, /) -> R_co: ...  # type: ignore[empty-body]


class Links:
    """The parents of a call: those that feed it, and those named by `after()`, with whether it runs
    if they fail."""

    __slots__ = ("_after", "_fed_by", "_fed_list", "_of_group")

    def __init__(self) -> None:
        self._fed_by: tuple[Call[Any], ...] = ()
        self._fed_list = False
        self._after: dict[Parent, bool] = {}
        self._of_group = 0

    def add(self, call: Call[Any], parent: Step[Any] | SentJob, runs_anyway: bool) -> None:
        """Make the call wait for the parent. Naming a parent twice keeps the later setting."""
        ends: Sequence[Parent] | None = getattr(parent, "ends", None)
        if ends is None:
            if isinstance(parent, Step) or not isinstance(getattr(parent, "job_id", None), bytes):
                raise ConfigError(
                    f"{call!r} can be after calls, flows and jobs, not after {parent!r}"
                )
            ends = (parent,)
        self._after.update(dict.fromkeys(ends, runs_anyway))
        if getattr(parent, "gives_list", False):
            self._of_group = len(ends)

    def feed(self, call: Call[Any], step: Step[Any]) -> None:
        """Have the call be given the results of the step."""
        if self._fed_by:
            raise ConfigError(
                f"{call!r} follows {self._fed_by[0]!r} already; make a call for each place in a "
                "flow"
            )
        self._fed_by, self._fed_list = step.ends, step.gives_list

    def parents(self) -> dict[Parent, bool]:
        """All that the call waits for, in order."""
        fed: dict[Parent, bool] = dict.fromkeys(self._fed_by, False)
        return fed | self._after

    def feeding(self, call: Call[Any]) -> Feed:
        """How the results of the parents become the first argument of the call."""
        count = len(self.parents())
        if self._fed_by:
            feeds, is_list = call.payload_after_first is not None, self._fed_list
            group = len(self._fed_by) if is_list else 0
        else:
            feeds, group = call.lacks_first_argument, self._of_group
            is_list = group > 0 or count > 1
        if not feeds:
            return ""
        if group and count > group:
            raise ConfigError(
                f"{call!r} takes the results of a group; it cannot wait for others beside it"
            )
        return "list" if is_list else "one"


class Call(Step[R_co]):
    """Arguments are encoded and checked when the call is made, so sending cannot fail over them. If
    it `lacks_first_argument`, a flow must give it. `payload_after_first` is the payload in a flow
    that does; None if there is no place for one more first argument."""

    __slots__ = (
        "is_plain", "labels", "lacks_first_argument", "links", "options", "packer", "payload",
        "payload_after_first", "queue", "returns", "runner", "takes", "task", "task_constraints",
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
        payload_after_first: bytes | None = None,
        lacks_first_argument: bool = False,
        runner: Runner = "loop",
        takes: Any = Any,
        packer: Packer | None = None,
    ) -> None:
        self.task = task
        self.takes = takes
        self.runner = runner
        self.queue = options.queue or queue
        self.payload = payload
        self.returns = returns
        self.options = options
        self.task_constraints = task_constraints
        self.labels = labels
        self.payload_after_first = payload_after_first
        self.lacks_first_argument = lacks_first_argument
        self.packer = packer
        unlabelled = labels is None and packer is None
        self.is_plain = options is PLAIN and unlabelled and not lacks_first_argument
        self.links: Links | None = None

    @property
    def heads(self) -> tuple[Call[Any], ...]:
        return (self,)

    @property
    def ends(self) -> tuple[Call[Any], ...]:
        return (self,)

    def after(
        self, *parents: Step[Any] | SentJob, if_failed: Literal["fail", "run"] = "fail"
    ) -> Self:
        """Start only after these have ended: calls and flows, which are sent along with it, or
        jobs. If one of them fails, so does this one, unless `if_failed="run"`. If the first
        argument is missing, it is their result: a list for several, None for a failed one. Changes
        the call, and returns it.

        Args:
            parents: Calls and flows, which are sent along, or jobs that were sent.
            if_failed: What happens if one of them is dead: "fail" makes this one dead too, "run"
                runs it all the same.
        """
        if if_failed not in ("fail", "run"):
            raise ConfigError(f"{self!r}: if_failed must be 'fail' or 'run', not {if_failed!r}")
        links = self._linked()
        for parent in parents:
            links.add(self, parent, if_failed == "run")
        return self

    def with_headers(self, headers: Mapping[str, str]) -> Self:
        """The call with these headers beside those that it has."""
        beside = {**self.options.overrides.headers, **headers}
        return self.with_options(self.options.changed(headers=beside))

    def with_options(self, options: SendOptions) -> Self:
        """The call with other options; none of them may change its constraints."""
        other = copy.copy(self)
        other.options = options
        other.is_plain = False
        return other

    def feed_from(self, step: Step[Any]) -> None:
        """Have the results of a step be this call's first argument, as in a chain."""
        self._linked().feed(self, step)

    def parcel(self, now_ms: int | None = None, membership: FlowMembership | None = None) -> Parcel:
        """This call as a new job. `now_ms`, the store's time, is needed only where `needs_time`;
        `membership` where it is part of a flow."""
        if self.is_plain and membership is None:
            job_id = ids.new_id()
            task, payload = self.task, self.payload
            return Parcel(job_id, encode_envelope(job_id, task, payload, NO_OVERRIDES, self.runner))
        return self._make_parcel(now_ms, membership or self._alone())

    @property
    def needs_time(self) -> bool:
        """Whether the envelope holds a moment that must be taken from the store's clock."""
        return self.options.expires_in_ms is not None

    def new_id(self) -> JobId:
        """The id of a job of this call."""
        return ids.new_id() if self.options.id is None else ids.to_id(self.options.id)

    def _alone(self) -> FlowMembership:
        if self.links is not None:
            raise ConfigError(f"{self!r} waits for others; send it with app.enqueue()")
        if self.lacks_first_argument:
            raise ArgumentError(
                self.task, "its first argument is missing, and no other call gives it one"
            )
        return FlowMembership(self.new_id(), b"", "", (), ())

    def _make_parcel(self, now_ms: int | None, membership: FlowMembership) -> Parcel:
        options, waits = self.options, bool(membership.parents)
        after_first = self.payload_after_first if membership.feed else None
        payload = self.payload if after_first is None else after_first
        overrides = self._overrides(now_ms, membership)
        if overrides.content or self.packer is not None:
            payload, overrides = packed(payload, overrides, self.packer, fed=payload is after_first)
        envelope = encode_envelope(membership.job_id, self.task, payload, overrides, self.runner)
        constraints, delay_ms = NO_CONSTRAINTS, options.delay_ms
        if self.task_constraints is not None and (self.labels is not None or waits):
            labels = self.labels or NO_LABELS
            constraints = self.task_constraints.of_job(self.queue, options, labels, waits)
            if delay_ms is None and options.at_ms is None:
                delay_ms = self.task_constraints.delay_ms(options, labels)
        if membership.flow:
            constraints = in_flow(membership.flow, constraints)
        return Parcel(
            membership.job_id,
            envelope,
            delay_ms,
            options.at_ms,
            constraints,
            membership.parents,
            membership.children,
            begins_flow=membership.begins,
        )

    def _overrides(self, now_ms: int | None, membership: FlowMembership) -> Overrides:
        options = self.options
        changes: dict[str, Any] = {}
        if options.expires_in_ms is not None and now_ms is not None:
            changes["expires_ms"] = now_ms + options.expires_in_ms
        elif options.expires_at_ms is not None:
            changes["expires_ms"] = options.expires_at_ms
        if options.id is not None:
            changes["sent_ms"] = now_ms
        if membership.flow:
            changes |= {"flow": membership.flow, "feed": membership.feed, "graph": membership.graph}
            if membership.end_queue != self.queue:
                changes["end_queue"] = membership.end_queue
        if not changes:
            return options.overrides
        return replace(options.overrides, **changes)

    def _linked(self) -> Links:
        if self.links is None:
            self.links, self.is_plain = Links(), False
        return self.links

    def __repr__(self) -> str:
        return f"<Call of {self.task!r} on {self.queue!r}>"
