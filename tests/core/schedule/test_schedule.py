"""Schedules as values: what is fired when, what is kept, what is refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.job import ids
from headrace.core.job.envelope import Malformed, NewerFormat, decode_envelope
from headrace.core.job.parcel import Tick
from headrace.core.schedule.declaration import commanded
from headrace.core.schedule.definition import Definition, Times, define
from headrace.core.schedule.schedule import (
    LATE_MS,
    MOST_MISSED,
    MOST_RECENT,
    Record,
    arm,
    decode_record,
    encode_record,
    tick_id,
)
from headrace.core.task.call import Call
from headrace.core.task.send_options import PLAIN
from headrace.errors import ConfigError

NOON = 1_780_315_200_000
"""2026-06-01 12:00 UTC."""
MINUTE, HOUR = 60_000, 3_600_000


def call(**options: Any) -> Call[None]:
    sending = PLAIN.changed(**options) if options else PLAIN
    return Call("report", "default", b"\x90", None, sending)


def defined(**times: Any) -> Definition:
    given = {"cron": "0 * * * *", **times}
    if "every" in times:
        del given["cron"]
    return define("hourly", call(), Times(**given))  # type: ignore[typeddict-item]


def armed(now_ms: int = NOON, **times: Any) -> Record:
    return arm(defined(**times), now_ms)


def moment(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, UTC)


def fired(record: Record, now_ms: int) -> tuple[Record, list[int]]:
    """The record after all that is due was fired, and the ticks."""
    reserved, _ = record.reserve(now_ms)
    return reserved.cleared(), list(reserved.reserved)


def test_a_tick_is_fired_when_it_is_due_and_then_over() -> None:
    record = armed()
    assert record.next_ms() == NOON + HOUR
    assert fired(record, NOON + HOUR - 1) == (record, [])
    record, ticks = fired(record, NOON + HOUR)
    assert ticks == [NOON + HOUR]
    assert (record.fired, record.last_ms, record.next_ms()) == (1, NOON + HOUR, NOON + 2 * HOUR)
    assert fired(record, NOON + HOUR) == (record, [])


@pytest.mark.parametrize(
    ("missed", "late_ms", "expected"),
    [
        ("skip", LATE_MS, [3]),
        ("skip", LATE_MS + 1, []),
        ("once", LATE_MS, [3]),
        ("once", 30 * MINUTE, [3]),
        ("all", 0, [1, 2, 3]),
        ("all", 30 * MINUTE, [1, 2, 3]),
    ],
)
def test_after_three_hours_without_a_worker(missed: str, late_ms: int, expected: list[int]) -> None:
    record, ticks = fired(armed(missed=missed), NOON + 3 * HOUR + late_ms)
    assert ticks == [NOON + hours * HOUR for hours in expected]
    assert record.next_ms() == NOON + 4 * HOUR
    assert record.fired == len(expected)


@pytest.mark.parametrize("missed", ["skip", "once"])
def test_ticks_in_quick_succession_are_not_missed_over_a_moment(missed: str) -> None:
    record = armed(every=0.25, missed=missed)
    _, ticks = fired(record, NOON + 1000)
    assert [tick - NOON for tick in ticks] == [250, 500, 750, 1000]
    _, ticks = fired(record, NOON + 10_100)
    assert [tick - NOON for tick in ticks] == [9250, 9500, 9750, 10_000]


def test_missed_ticks_that_are_made_up_for_are_bounded() -> None:
    reserved, left_out = armed(every=1, missed="all").reserve(NOON + 5_000_000)
    assert (len(reserved.reserved), left_out) == (MOST_MISSED, True)
    assert reserved.reserved[-1] == NOON + 5_000_000
    assert reserved.next_ms() == NOON + 5_001_000


def test_the_latest_ticks_are_kept_and_no_more() -> None:
    record, ticks = fired(armed(), NOON + HOUR)
    assert record.recent == tuple(ticks) == (NOON + HOUR,)
    reserved, _ = armed(every=1, missed="all").reserve(NOON + 5_000_000)
    assert reserved.recent == reserved.reserved[-MOST_RECENT:]


def test_reserved_ticks_come_before_any_others() -> None:
    reserved, _ = armed().reserve(NOON + HOUR)
    assert reserved.reserve(NOON + 2 * HOUR) == (reserved, False)
    assert fired(reserved.cleared(), NOON + 2 * HOUR)[1] == [NOON + 2 * HOUR]


def test_ticks_that_could_not_be_fired_do_not_count() -> None:
    reserved, _ = armed(limit=1).reserve(NOON + HOUR)
    failed = reserved.failed("the queue is broken")
    assert (failed.fired, failed.reserved) == (0, ())
    assert failed.problem == "the queue is broken"
    assert failed.next_ms() == NOON + 2 * HOUR


def test_a_limit_is_the_number_of_jobs_in_all() -> None:
    record, ticks = fired(armed(limit=2, missed="all"), NOON + 5 * HOUR)
    assert ticks == [NOON + HOUR, NOON + 2 * HOUR]
    assert (record.ended, record.next_ms()) == (True, None)
    assert fired(record, NOON + 6 * HOUR) == (record, [])


def test_a_schedule_begins_at_its_start_and_ends_with_its_end() -> None:
    record = armed(start=moment(NOON + 3 * HOUR), end=moment(NOON + 4 * HOUR), missed="all")
    assert not record.ended
    record, ticks = fired(record, NOON + 9 * HOUR)
    assert ticks == [NOON + 3 * HOUR, NOON + 4 * HOUR]
    assert record.ended


def test_an_interval_is_counted_from_its_start() -> None:
    record = armed(every=7, start=moment(NOON + 3000))
    assert record.next_ms() == NOON + 3000
    record, _ = fired(record, NOON + 3000)
    assert record.next_ms() == NOON + 10_000


def test_without_a_start_an_interval_is_the_same_whenever_it_is_declared() -> None:
    assert armed(NOON + 17, every=30).next_ms() == armed(NOON + 29_000, every=30).next_ms()


def test_a_pause_leaves_no_ticks_behind() -> None:
    paused = armed(missed="all").pause()
    assert (paused.next_ms(), paused.ended) == (None, False)
    assert fired(paused, NOON + 3 * HOUR) == (paused, [])
    resumed = paused.resume(NOON + 3 * HOUR)
    assert resumed.next_ms() == NOON + 4 * HOUR
    assert resumed.resume(NOON + 9 * HOUR) is resumed


def test_the_same_schedule_again_goes_on_as_it_was() -> None:
    record, _ = fired(armed(), NOON + HOUR)
    assert commanded("hourly", defined(), NOON + 9 * HOUR, record) is record


@pytest.mark.parametrize(
    "other",
    [
        {"cron": "5 * * * *"},
        {"timezone": "Europe/Berlin"},
        {"missed": "once"},
        {"limit": 1},
        {"every": 30},
        {"end": moment(NOON + 90 * HOUR)},
    ],
)
def test_another_schedule_of_that_name_begins_anew(other: dict[str, Any]) -> None:
    record, _ = fired(armed(limit=2).pause().resume(NOON), NOON + HOUR)
    again = commanded("hourly", defined(**other), NOON + HOUR, record.pause())
    assert (again.fired, again.last_ms, again.paused) == (0, None, True)
    upcoming = again.resume(NOON + HOUR).next_ms()
    assert upcoming is not None
    assert upcoming > NOON + HOUR


@given(
    every=st.floats(0.1, 50),
    missed=st.sampled_from(["skip", "once", "all"]),
    pauses=st.lists(st.integers(1, 200_000), max_size=20),
)
def test_no_tick_is_fired_twice_early_or_out_of_order(
    every: float, missed: str, pauses: list[int]
) -> None:
    record, now_ms, seen = armed(every=every, missed=missed), NOON, [NOON]
    for pause in pauses:
        now_ms += pause
        record, ticks = fired(record, now_ms)
        assert all(tick <= now_ms for tick in ticks)
        seen += ticks
    assert seen == sorted(set(seen))
    assert record.fired == len(seen) - 1


def test_the_job_of_a_tick_has_its_id_and_options() -> None:
    sent = call(expires=60, timeout=5, headers={"tenant": "eu"}, queue="slow", delay=2)
    definition = define("nightly", sent, Times(every=1))
    parcel = definition.parcel(tick_id("nightly", NOON), NOON + 5, Tick("nightly", NOON))
    envelope = decode_envelope(parcel.envelope)
    assert ids.to_text(parcel.job_id) == "nightly@2026-06-01T12:00:00Z"
    assert (envelope.job_id, envelope.task, definition.queue) == (parcel.job_id, "report", "slow")
    assert parcel.tick == Tick("nightly", NOON)
    assert parcel.delay_ms == 2000
    overrides = envelope.overrides
    assert (overrides.timeout, overrides.headers) == (5, {"tenant": "eu"})
    assert (overrides.sent_ms, overrides.expires_ms) == (NOON + 5, NOON + 60_005)


def test_ticks_within_a_second_have_ids_of_their_own() -> None:
    assert ids.to_text(tick_id("fast", NOON + 100)) == "fast@2026-06-01T12:00:00.100Z"


@pytest.mark.parametrize(
    ("times", "problem"),
    [
        ({}, "either cron= or every="),
        ({"cron": "* * * * *", "every": 5}, "either cron= or every="),
        ({"cron": "nonsense"}, "nonsense"),
        ({"cron": "* * * * *", "timezone": "Mars/Olympus"}, "Mars/Olympus"),
        ({"every": 0}, "every"),
        ({"every": 5, "timezone": "Europe/Berlin"}, "timezone"),
        ({"every": 5, "missed": "sometimes"}, "sometimes"),
        ({"every": 5, "missed": []}, "missed"),
        ({"every": 5, "limit": 0}, "limit"),
        ({"every": 5, "limit": 1.5}, "limit"),
        ({"every": 5, "start": "tomorrow"}, "start"),
        ({"every": 5, "end": datetime(2030, 1, 1)}, "end"),
        ({"every": 5, "start": moment(NOON), "end": moment(NOON - 1)}, "before its start"),
        ({"every": 5, "sometimes": True}, "sometimes"),
    ],
)
def test_what_makes_no_schedule_is_refused_by_its_name(times: Any, problem: str) -> None:
    with pytest.raises(ConfigError, match=rf"'hourly'.*{problem}"):
        define("hourly", call(), times)


@pytest.mark.parametrize(
    "options",
    [{"id": "one"}, {"at": moment(NOON)}, {"expires": moment(NOON) + timedelta(days=1)}],
)
def test_a_call_that_can_be_sent_only_once_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="many jobs"):
        define("hourly", call(**options), Times(every=5))


def test_what_is_no_call_or_waits_for_others_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"'hourly'.*task.call"):
        define("hourly", "report", Times(every=5))  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"'hourly'.*flow"):
        define("hourly", call().after(call()), Times(every=5))


@pytest.mark.parametrize("name", ["", "two words", "x" * 201, "ä" * 101, "a\nb", None, 5])
def test_what_is_no_name_is_refused(name: Any) -> None:
    with pytest.raises(ConfigError, match="schedule name"):
        define(name, call(), Times(every=5))


def test_the_longest_name_makes_an_id() -> None:
    define("ä" * 100, call(), Times(every=5))
    tick_id("ä" * 100, NOON + 1)


def test_a_record_survives_its_way_through_the_store() -> None:
    record, _ = armed(missed="all", limit=5, end=moment(NOON + 9 * HOUR)).reserve(NOON + 2 * HOUR)
    again = decode_record(encode_record(record.failed("x").pause()))
    assert again == record.failed("x").pause()
    assert again.definition == record.definition


def test_an_older_worker_keeps_what_it_does_not_know_of_a_definition() -> None:
    newer = {**msgspec.to_builtins(defined()), "payload": b"\x90", "colour": "red"}
    record = msgspec.structs.replace(armed(), body=msgspec.msgpack.encode(newer))
    again = decode_record(encode_record(fired(record, NOON + HOUR)[0]))
    assert msgspec.msgpack.decode(again.body)["colour"] == "red"


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x90", b"\xa3abc", b"\x81\xa6format\xa1x"])
def test_what_is_no_record_is_malformed(data: bytes) -> None:
    with pytest.raises(Malformed):
        decode_record(data)


def test_a_record_without_times_is_malformed() -> None:
    body = msgspec.msgpack.encode({"task": "t", "queue": "q", "payload": b"", "cadence": {}})
    with pytest.raises(Malformed):
        _ = Record(1, body, 0).definition


def test_a_record_of_a_newer_format_is_left_alone() -> None:
    with pytest.raises(NewerFormat):
        decode_record(encode_record(msgspec.structs.replace(armed(), format=2)))


def test_no_tick_is_missed_of_a_time_that_was_watched() -> None:
    reserved, left_out = armed().reserve(NOON + 3 * HOUR, NOON)
    assert (reserved.reserved, left_out) == ((NOON + HOUR, NOON + 2 * HOUR, NOON + 3 * HOUR), False)
    # Those before are missed as ever.
    late = NOON + 4 * HOUR + HOUR // 2
    watched = NOON + 2 * HOUR + HOUR // 2
    assert armed().reserve(late, watched)[0].reserved == (NOON + 3 * HOUR, NOON + 4 * HOUR)
    once, _ = armed(missed="once").reserve(late, watched)
    assert once.reserved == (NOON + 2 * HOUR, NOON + 3 * HOUR, NOON + 4 * HOUR)
    only_before, _ = armed().reserve(NOON + HOUR + HOUR // 2, NOON + HOUR + HOUR // 3)
    assert (only_before.reserved, only_before.next_ms()) == ((), NOON + 2 * HOUR)
    # What is not over yet is not watched either.
    assert armed().reserve(NOON + HOUR, NOON + HOUR)[0].reserved == (NOON + HOUR,)


def test_there_is_a_bound_on_the_ticks_of_a_watched_time() -> None:
    reserved, left_out = armed(every=1).reserve(NOON + 5_000_000, NOON)
    assert (len(reserved.reserved), left_out) == (MOST_MISSED, True)
