"""What a schedule sends, and when: checked where it is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, TypedDict, get_args

import msgspec

from headrace.core.bounds import MAX_MS, check_count, check_name
from headrace.core.clock import Duration
from headrace.core.foreign_words import SCHEDULE_OPTIONS
from headrace.core.job.capacity import Runner
from headrace.core.job.constraints import NO_CONSTRAINTS, Constraints
from headrace.core.job.envelope import NO_OVERRIDES, Overrides, decode_envelope, encode_envelope
from headrace.core.job.ids import JobId
from headrace.core.job.parcel import FlowMembership, Parcel, Tick
from headrace.core.schedule.cadence import Cadence, cron_cadence, every_cadence
from headrace.core.task.call import Call
from headrace.core.task.send_options import SendOptions
from headrace.core.wrong_use import unknown_option
from headrace.errors import ConfigError

Missed = Literal["skip", "once", "all"]


class Times(TypedDict, total=False):
    """When a schedule ticks: one of `cron` (in a `timezone`) and `every`, and what bounds it."""

    cron: str | None
    """A cron expression of five fields, such as "*/5 * * * *", or six with seconds."""
    every: Duration | None
    """Seconds, or a timedelta, between two ticks; instead of `cron`."""
    timezone: str
    """The time zone that `cron` is in, such as "Europe/Berlin"; "UTC" unless said."""
    missed: Missed
    """What happens to ticks at which no worker ran: "skip", the default, "once" for one job in all,
    or "all" for one each."""
    start: datetime | None
    """No tick before this: an aware datetime."""
    end: datetime | None
    """No tick after this: an aware datetime."""
    limit: int | None
    """How many ticks there are in all; no limit unless said."""


# With the tick's time behind it, the name must fit into a job's id.
_MAX_NAME_BYTES = 200


class Definition(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is sent, and when. Two that are equal are the same schedule."""

    task: str
    queue: str
    payload: bytes
    cadence: Cadence
    missed: Missed = "skip"
    start_ms: int | None = None
    end_ms: int | None = None
    limit: int | None = None
    declared: bool = False
    """In the code of an app: only workers of an app that declares it fire it."""
    overrides: Overrides = NO_OVERRIDES
    delay_ms: int | None = None
    expires_in_ms: int | None = None
    constraints: Constraints = NO_CONSTRAINTS

    def parcel(
        self, job_id: JobId, now_ms: int, tick: Tick | None = None, runner: Runner = "loop"
    ) -> Parcel:
        """The job of one tick, or of `run_now`. `runner` is that of the task in the program that
        sends it: it may be newer than the schedule."""
        expires_ms = None if self.expires_in_ms is None else now_ms + self.expires_in_ms
        overrides = msgspec.structs.replace(self.overrides, sent_ms=now_ms, expires_ms=expires_ms)
        envelope = encode_envelope(job_id, self.task, self.payload, overrides, runner)
        return Parcel(job_id, envelope, self.delay_ms, constraints=self.constraints, tick=tick)

    def call(self, returns: Any = Any, runner: Runner = "loop") -> ScheduledCall:
        """A call that makes the same job, for middleware to look at and to change."""
        return ScheduledCall(self, returns, runner)

    def after(self, moment_ms: int) -> int | None:
        """The first tick later than a moment, within start and end."""
        tick = self.cadence.after(max(moment_ms, self._floor_ms), self.start_ms or 0)
        return None if tick is None or tick > self._ceiling_ms else tick

    def between(self, after_ms: int, until_ms: int, most: int) -> tuple[list[int], bool]:
        """The latest ticks later than one moment and not later than another; whether there were
        more."""
        after_ms, until_ms = max(after_ms, self._floor_ms), min(until_ms, self._ceiling_ms)
        if until_ms <= after_ms:
            return [], False
        return self.cadence.between(after_ms, until_ms, most, self.start_ms or 0)

    @property
    def _floor_ms(self) -> int:
        return -1 if self.start_ms is None else self.start_ms - 1

    @property
    def _ceiling_ms(self) -> int:
        return MAX_MS if self.end_ms is None else self.end_ms


class ScheduledCall(Call[Any]):
    """A call of a schedule. Its constraints were made when the schedule was defined."""

    __slots__ = ("constraints",)

    def __init__(self, definition: Definition, returns: Any, runner: Runner) -> None:
        options = SendOptions(
            delay_ms=definition.delay_ms,
            expires_in_ms=definition.expires_in_ms,
            overrides=definition.overrides,
        )
        super().__init__(
            definition.task,
            definition.queue,
            definition.payload,
            returns,
            options,
            runner=runner,
        )
        self.constraints = definition.constraints

    def _make_parcel(self, now_ms: int | None, membership: FlowMembership) -> Parcel:
        parcel = super()._make_parcel(now_ms, membership)
        return msgspec.structs.replace(parcel, constraints=self.constraints)


def define(name: str, call: Call[Any], times: Times, *, declared: bool = False) -> Definition:
    """A checked definition; `ConfigError` names the schedule and the problem."""
    check_schedule_name(name)
    try:
        fields = {**_bounds(times), **_sent_parts(call)}
        cadence = _cadence(times)
    except ConfigError as error:
        raise ConfigError(f"schedule {name!r}: {error}") from None
    return Definition(call.task, call.queue, call.payload, cadence, declared=declared, **fields)


def check_schedule_name(name: object) -> str:
    """`name` if it can be the name of a schedule."""
    text = check_name("schedule name", name)
    if len(text.encode("utf-8", "replace")) > _MAX_NAME_BYTES:
        raise ConfigError(f"schedule name {text!r} takes more than {_MAX_NAME_BYTES} bytes")
    return text


def check_arguments(where: str, args: object, kwargs: object) -> None:
    """Refuse arguments that are not a list and a mapping."""
    if isinstance(args, str | bytes) or not isinstance(args, Sequence):
        raise ConfigError(f"{where}: args must be a list, such as args=[1, 2], not {args!r}")
    if not isinstance(kwargs, Mapping):
        raise ConfigError(
            f"{where}: kwargs must be a dict, such as kwargs={{'n': 1}}, not {kwargs!r}"
        )


def check_times(where: str, times: Times) -> None:
    """Refuse times that no schedule can have; `where` is what they are for."""
    try:
        _cadence(times)
        _bounds(times)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None


def _cadence(times: Times) -> Cadence:
    cron, every, timezone = times.get("cron"), times.get("every"), times.get("timezone", "UTC")
    if (cron is None) == (every is None):
        raise ConfigError("give either cron= or every=")
    if every is None:
        return cron_cadence(cron, timezone)
    if timezone != "UTC":
        raise ConfigError("every= takes no timezone: an interval is as long everywhere")
    return every_cadence(every)


def _bounds(times: Times) -> dict[str, Any]:
    if unknown := sorted(times.keys() - Times.__annotations__.keys()):
        raise unknown_option("it", unknown[0], Times.__annotations__, SCHEDULE_OPTIONS)
    missed, limit = times.get("missed", "skip"), times.get("limit")
    start_ms, end_ms = _moment_ms("start", times.get("start")), _moment_ms("end", times.get("end"))
    if missed not in get_args(Missed):
        raise ConfigError(f"missed must be 'skip', 'once' or 'all', not {missed!r}")
    if start_ms is not None and end_ms is not None and end_ms < start_ms:
        raise ConfigError(f"its end ({times['end']}) is before its start ({times['start']})")
    if limit is not None:
        check_count("limit", limit)
    return {"missed": missed, "start_ms": start_ms, "end_ms": end_ms, "limit": limit}


def _moment_ms(what: str, moment: object) -> int | None:
    if moment is None:
        return None
    if not isinstance(moment, datetime) or moment.tzinfo is None:
        raise ConfigError(f"{what} must be a datetime with a time zone, not {moment!r}")
    return round(moment.timestamp() * 1000)


def _sent_parts(call: Call[Any]) -> dict[str, Any]:
    """What the options of a call say about each of its jobs."""
    if not isinstance(call, Call):
        raise ConfigError(f"it takes a call, such as task.call(1, 2), not {call!r}")
    if call.links is not None:
        raise ConfigError(f"{call!r} is part of a flow: schedule a task that sends the flow")
    options = call.options
    if options.id is not None or options.at_ms is not None or options.expires_at_ms is not None:
        raise ConfigError("its call has an id or a moment of its own, and there will be many jobs")
    if options.confirm:
        raise ConfigError(
            "its call has confirm=, and nobody waits for the jobs of a schedule to be stored: "
            "leave it out, or set confirm_replicas of the app"
        )
    if call.packer is not None:
        call.packer.check_inside(call.task, call.payload)
    parcel = call.parcel(0)
    overrides = msgspec.structs.replace(decode_envelope(parcel.envelope).overrides, packing=None)
    return {
        "overrides": msgspec.structs.replace(overrides, expires_ms=None, sent_ms=None),
        "delay_ms": parcel.delay_ms,
        "expires_in_ms": options.expires_in_ms,
        "constraints": parcel.constraints,
    }
