"""The state of one schedule."""

from __future__ import annotations

from datetime import datetime, tzinfo

import msgspec

from headrace.core.schedule.cadence import to_zone
from headrace.core.schedule.definition import Definition, Missed
from headrace.core.schedule.schedule import Record, decode_record
from headrace.errors import HeadraceError


class Schedule(msgspec.Struct, frozen=True):
    """The state of a schedule now. Times are in its time zone."""

    name: str
    """The name of the schedule."""
    task: str
    """The name of the task whose jobs it sends."""
    queue: str
    """The queue that they go to."""
    cron: str | None
    """The cron expression; None if it ticks every so often."""
    every: float | None
    """Seconds."""
    timezone: str
    """The time zone of `cron`."""
    missed: Missed
    """What happens to ticks at which no worker ran."""
    start: datetime | None
    """No tick before this."""
    end: datetime | None
    """No tick after this."""
    limit: int | None
    """How many ticks there are in all."""
    next_tick: datetime | None
    """The first one after now; None if it is paused, has ended, or cannot be read."""
    last_tick: datetime | None
    """The last one for which there was a job."""
    fired: int
    """Jobs since it was made or changed, those of `run_now` not counted."""
    paused: bool
    """Whether it is paused."""
    ended: bool
    """Whether it has no more ticks."""
    declared: bool
    """Whether it stands in the code of an app."""
    problem: str
    """Why it does not fire; empty if all is well."""

    @classmethod
    def read(cls, name: str, data: bytes, now_ms: int) -> Schedule:
        """What stored bytes say. Never fails: what cannot be read is its problem."""
        try:
            record = decode_record(data)
        except HeadraceError as error:
            return cls.broken(name, str(error))
        return cls.of(name, record, now_ms)

    @classmethod
    def of(cls, name: str, record: Record, now_ms: int) -> Schedule:
        """Never fails: what cannot be read is its problem."""
        try:
            definition = record.definition
            zone = to_zone(definition.cadence.zone)
            next_ms = record.next_ms()
            if next_ms is not None:
                next_ms = definition.after(max(record.passed_ms, now_ms))
            return cls._of(name, record, definition, zone, next_ms)
        except Exception as error:  # A time that no calendar has, a zone that is none, and so on.
            return cls.broken(name, record.problem or str(error), record)

    @classmethod
    def _of(
        cls, name: str, record: Record, definition: Definition, zone: tzinfo, next_ms: int | None
    ) -> Schedule:
        return cls(
            name=name,
            task=definition.task,
            queue=definition.queue,
            cron=definition.cadence.cron or None,
            every=definition.cadence.every_ms / 1000 or None,
            timezone=definition.cadence.zone,
            missed=definition.missed,
            start=_moment(definition.start_ms, zone),
            end=_moment(definition.end_ms, zone),
            limit=definition.limit,
            next_tick=_moment(next_ms, zone),
            last_tick=_moment(record.last_ms, zone),
            fired=record.fired,
            paused=record.paused,
            ended=next_ms is None and record.ended,
            declared=definition.declared,
            problem=record.problem,
        )

    @classmethod
    def broken(cls, name: str, problem: str, record: Record | None = None) -> Schedule:
        """A schedule that cannot be read."""
        fired, paused = (record.fired, record.paused) if record else (0, False)
        return cls(
            name, "", "", None, None, "UTC", "skip", None, None, None, None, None,
            fired, paused, ended=False, declared=False, problem=problem,
        )  # fmt: skip


def _moment(at_ms: int | None, zone: tzinfo) -> datetime | None:
    return None if at_ms is None else datetime.fromtimestamp(at_ms / 1000, zone)
