"""A schedule: what is sent when, and how far it has come. Pure: each change makes a new record.

Ticks are fired in two steps, so that a crash between them neither loses one nor makes two: a record
first reserves the ticks that are due, then their jobs are appended, then it is cleared. A worker
that finds reserved ticks appends them (again): the store adds no job for a tick that has one.
"""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from headrace.core.job import ids
from headrace.core.job.envelope import Malformed, NewerFormat
from headrace.core.job.ids import JobId
from headrace.core.schedule.definition import Definition

FORMAT = 1
MOST_MISSED = 1000
"""How many ticks `missed="all"` makes up for."""
PROMPT_MS = 1_000
"""A tick is missed if it is later than this and the next one is due already,"""
LATE_MS = 60_000
"""or if it is later than this."""
MOST_RECENT = 10
"""How many of its latest ticks a record keeps, and of the jobs sent with `run_now`."""


class Record(msgspec.Struct, frozen=True, omit_defaults=True):
    """One schedule as the store keeps it."""

    format: int
    body: bytes
    """The encoded definition: kept as it came, so that an older worker drops nothing of it."""
    passed_ms: int
    """Ticks up to here are over: fired, missed, or before its time."""
    fired: int = 0
    """Jobs in all, those of reserved ticks included."""
    last_ms: int | None = None
    reserved: tuple[int, ...] = ()
    """Ticks whose jobs may not be in the store yet."""
    reserved_by: bytes = b""
    """The definition that they are of, if it was replaced since."""
    paused: bool = False
    problem: str = ""
    recent: tuple[int, ...] = ()
    """The latest ticks that were fired, the last of them last."""
    manual: tuple[tuple[int, JobId], ...] = ()
    """When the latest jobs were sent with `run_now`, and their ids, the last of them last."""
    replaced: tuple[bytes, ...] = ()
    """Marks of the declarations before this one, the last of them last: see `declaration.py`."""

    @property
    def definition(self) -> Definition:
        """Raises `Malformed` if it cannot be read."""
        return _read_definition(self.body)

    @property
    def reserved_definition(self) -> Definition:
        """What the jobs of reserved ticks are made of. Raises `Malformed` if it cannot be read."""
        return _read_definition(self.reserved_by or self.body)

    def next_ms(self) -> int | None:
        """The next tick that is not over; None if it is paused or has ended."""
        definition = self.definition
        if self.paused or (definition.limit is not None and self.fired >= definition.limit):
            return None
        return definition.after(self.passed_ms)

    def coming(self, now_ms: int, most: int) -> list[int]:
        """Up to `most` next ticks after now; none if it is paused or has ended."""
        definition, ticks = self.definition, list[int]()
        if definition.limit is not None:
            most = min(most, definition.limit - self.fired)
        after_ms = max(self.passed_ms, now_ms)
        while not self.paused and len(ticks) < most:
            tick = definition.after(after_ms)
            if tick is None:
                break
            ticks.append(tick)
            after_ms = tick
        return ticks

    @property
    def ended(self) -> bool:
        """Whether it will never tick again, as it is."""
        return msgspec.structs.replace(self, paused=False).next_ms() is None

    def reserve(self, now_ms: int, watched_ms: int | None = None) -> tuple[Record, bool]:
        """Mark all ticks up to now as over, and reserve those to fire: none that is later than
        `watched_ms` is missed. Also returns whether some had to be dropped, since there were too
        many."""
        tick = self.next_ms()
        if self.reserved or tick is None or tick > now_ms:
            return self, False
        definition, passed_ms = self.definition, self.passed_ms
        if watched_ms is None or watched_ms >= now_ms:
            ticks, latest_ms, left_out = _to_fire(definition, passed_ms, now_ms)
        else:
            ticks, latest_ms, left_out = _watched(definition, passed_ms, watched_ms, now_ms)
        limit = definition.limit
        if limit is not None and len(ticks) > limit - self.fired:
            ticks = ticks[: limit - self.fired]
        changed = msgspec.structs.replace(
            self,
            passed_ms=latest_ms,
            fired=self.fired + len(ticks),
            last_ms=ticks[-1] if ticks else self.last_ms,
            reserved=tuple(ticks),
            recent=(*self.recent, *ticks)[-MOST_RECENT:],
        )
        return changed, left_out

    def cleared(self, refused: int = 0, problem: str = "") -> Record:
        """After the jobs of the reserved ticks were sent, except for the `refused` ones."""
        # Those of a definition that was replaced were never counted here.
        fired = self.fired if self.reserved_by else self.fired - refused
        return msgspec.structs.replace(
            self, reserved=(), reserved_by=b"", fired=fired, problem=problem[:500]
        )

    def failed(self, problem: str) -> Record:
        """After none of them could be sent, and none will be."""
        return self.cleared(len(self.reserved), problem)

    def ran_now(self, now_ms: int, job_id: JobId) -> Record:
        """After a job was sent outside of the ticks."""
        manual = (*self.manual, (now_ms, job_id))[-MOST_RECENT:]
        return msgspec.structs.replace(self, manual=manual)

    def pause(self) -> Record:
        return msgspec.structs.replace(self, paused=True)

    def resume(self, now_ms: int) -> Record:
        """Ticks during the pause never were."""
        if not self.paused:
            return self
        return msgspec.structs.replace(self, paused=False, passed_ms=max(self.passed_ms, now_ms))

    def begun_again(self, body: bytes, now_ms: int) -> Record:
        """With another definition. It stays paused; ticks of the old one that are reserved are
        fired as they were to be."""
        return Record(
            FORMAT,
            body,
            now_ms,
            reserved=self.reserved,
            reserved_by=(self.reserved_by or self.body) if self.reserved else b"",
            paused=self.paused,
            replaced=self.replaced,
        )


def arm(definition: Definition, now_ms: int) -> Record:
    """The record of a schedule that is new, from now on."""
    return Record(FORMAT, encode_definition(definition), now_ms)


def tick_id(name: str, tick_ms: int) -> JobId:
    """The id of a tick's job, the same in every worker."""
    moment = datetime.fromtimestamp(tick_ms / 1000, UTC)
    precision = "milliseconds" if tick_ms % 1000 else "seconds"
    return ids.to_id(f"{name}@{moment.replace(tzinfo=None).isoformat(timespec=precision)}Z")


def encode_definition(definition: Definition) -> bytes:
    return _encode(definition)


def encode_record(record: Record) -> bytes:
    return _encode(record)


def decode_record(data: bytes) -> Record:
    """The record in `data`, or `Malformed` or `NewerFormat`."""
    try:
        record = _decode_record(data)
    except _UNREADABLE as error:
        raise Malformed(f"it is not a schedule: {error}") from None
    if record.format > FORMAT:
        raise NewerFormat(f"a newer Headrace made it, in format {record.format}: upgrade this one")
    return record


def _read_definition(body: bytes) -> Definition:
    try:
        return _decode_definition(body)
    except _UNREADABLE as error:
        raise Malformed(f"its definition cannot be read: {error}") from None


def _to_fire(definition: Definition, passed_ms: int, now_ms: int) -> tuple[list[int], int, bool]:
    """The ticks to be fired, the latest that is due, and whether some were left out."""
    if definition.missed == "all":
        ticks, more = definition.between(passed_ms, now_ms, MOST_MISSED)
        return ticks, ticks[-1], more
    (latest_ms,), _ = definition.between(passed_ms, now_ms, 1)
    prompt, _ = definition.between(max(passed_ms, now_ms - PROMPT_MS - 1), now_ms, MOST_MISSED)
    if not prompt and (definition.missed == "once" or now_ms - latest_ms <= LATE_MS):
        prompt = [latest_ms]
    return prompt, latest_ms, False


def _watched(
    definition: Definition, passed_ms: int, watched_ms: int, now_ms: int
) -> tuple[list[int], int, bool]:
    """The ticks to be fired if someone has watched since then, and time went on by leaps."""
    ticks, left_out = definition.between(max(passed_ms, watched_ms), now_ms, MOST_MISSED)
    latest_ms = ticks[-1] if ticks else watched_ms
    first = definition.after(passed_ms)
    if first is None or first > watched_ms:
        return ticks, latest_ms, left_out
    before, _, before_left_out = _to_fire(definition, passed_ms, watched_ms)
    return before + ticks, latest_ms, left_out or before_left_out


_encode = msgspec.msgpack.Encoder(order="deterministic").encode
_decode_record = msgspec.msgpack.Decoder(Record).decode
_decode_definition = msgspec.msgpack.Decoder(Definition).decode
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
