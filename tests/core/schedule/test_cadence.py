"""When schedules tick: cron in time zones, through both changes of the clock, and intervals."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.schedule.cadence import Cadence, cron_cadence, every_cadence, to_zone
from headrace.errors import ConfigError

BERLIN = "Europe/Berlin"
MOMENTS = st.integers(0, 4_000_000_000_000)
CRONS = st.sampled_from(
    [
        "* * * * *",
        "*/7 * * * *",
        "30 2 * * *",
        "0,15,30,45 2 * * *",
        "15 1-3 * * *",
        "*/20 2 * * *",
        "0 */5 * * *",
        "0 0 * * *",
        "0 0 29 2 *",
        "0 12 L * *",
        "30 2 * * 0L",
        "*/10 * * * * *",
        "30 30 2 * * *",
        "@hourly",
        "@weekly",
    ]
)
ZONES = st.sampled_from(
    ["UTC", BERLIN, "America/New_York", "Australia/Lord_Howe", "Africa/Cairo", "Asia/Kolkata"]
)


def ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def ticks(cadence: Cadence, start: str, count: int) -> list[str]:
    found, moment = [], ms(start)
    for _ in range(count):
        tick = cadence.after(moment)
        assert tick is not None
        moment = tick
        local = datetime.fromtimestamp(tick / 1000, to_zone(cadence.zone))
        found.append(local.strftime("%m-%d %H:%M:%S%z"))
    return found


@pytest.mark.parametrize(
    ("cron", "expected"),
    [
        ("*/5 * * * *", ["06-01 12:05:00+0000", "06-01 12:10:00+0000"]),
        ("30 2 * * *", ["06-02 02:30:00+0000", "06-03 02:30:00+0000"]),
        ("0 9 * * MON-FRI", ["06-02 09:00:00+0000", "06-03 09:00:00+0000"]),
        ("0 0 13 * FRI", ["06-05 00:00:00+0000", "06-12 00:00:00+0000"]),
        ("0 0 L * *", ["06-30 00:00:00+0000", "07-31 00:00:00+0000"]),
        ("0 0 * * 1#2", ["06-08 00:00:00+0000", "07-13 00:00:00+0000"]),
        ("@hourly", ["06-01 13:00:00+0000", "06-01 14:00:00+0000"]),
        ("@daily", ["06-02 00:00:00+0000", "06-03 00:00:00+0000"]),
        ("@midnight", ["06-02 00:00:00+0000", "06-03 00:00:00+0000"]),
        ("@weekly", ["06-07 00:00:00+0000", "06-14 00:00:00+0000"]),
        ("@monthly", ["07-01 00:00:00+0000", "08-01 00:00:00+0000"]),
        ("@yearly", ["01-01 00:00:00+0000", "01-01 00:00:00+0000"]),
        ("@annually", ["01-01 00:00:00+0000", "01-01 00:00:00+0000"]),
        ("*/20 * * * * *", ["06-01 12:00:20+0000", "06-01 12:00:40+0000"]),
        ("15 30 2 * * *", ["06-02 02:30:15+0000", "06-03 02:30:15+0000"]),
    ],
)
def test_cron_is_five_fields_or_six_with_the_second_first(cron: str, expected: list[str]) -> None:
    assert ticks(cron_cadence(cron, "UTC"), "2026-06-01T12:00:00+00:00", 2) == expected


@pytest.mark.parametrize(
    ("cron", "expected"),
    [
        # A time that does not exist comes at the end of the gap.
        ("30 2 * * *", ["03-28 02:30:00+0100", "03-29 03:00:00+0200", "03-30 02:30:00+0200"]),
        ("0 * * * *", ["03-28 01:00:00+0100", "03-28 02:00:00+0100", "03-28 03:00:00+0100"]),
        ("0 3 * * *", ["03-28 03:00:00+0100", "03-29 03:00:00+0200", "03-30 03:00:00+0200"]),
        # With seconds or stars, the clock is followed as it runs: that time is not there.
        ("0 30 2 * * *", ["03-28 02:30:00+0100", "03-30 02:30:00+0200"]),
        ("*/30 2 29 * *", ["04-29 02:00:00+0200", "04-29 02:30:00+0200"]),
    ],
)
def test_when_clocks_go_forward(cron: str, expected: list[str]) -> None:
    cadence = cron_cadence(cron, BERLIN)
    assert ticks(cadence, "2026-03-28T00:00:00+01:00", len(expected)) == expected


@pytest.mark.parametrize(
    ("cron", "expected"),
    [
        # A fixed time comes once, the first time.
        ("30 2 * * *", ["10-25 02:30:00+0200", "10-26 02:30:00+0100"]),
        # Every hour is every hour, the one that comes twice included.
        ("0 * * * *", ["10-25 02:00:00+0200", "10-25 02:00:00+0100", "10-25 03:00:00+0100"]),
        ("*/30 * * * *", ["10-25 01:30:00+0200", "10-25 02:00:00+0200", "10-25 02:30:00+0200",
                          "10-25 02:00:00+0100", "10-25 02:30:00+0100"]),
        ("0 30 2 * * *", ["10-25 02:30:00+0200", "10-25 02:30:00+0100", "10-26 02:30:00+0100"]),
    ],
)  # fmt: skip
def test_when_clocks_go_back(cron: str, expected: list[str]) -> None:
    cadence = cron_cadence(cron, BERLIN)
    assert ticks(cadence, "2026-10-25T01:00:00+02:00", len(expected)) == expected


def test_within_the_hour_that_comes_twice_no_tick_lies_in_the_past() -> None:
    cadence = cron_cadence("30 2 * * *", BERLIN)
    assert ticks(cadence, "2026-10-25T02:10:00+01:00", 1) == ["10-26 02:30:00+0100"]


@given(cron=CRONS, zone=ZONES, moment=MOMENTS, share=st.floats(0, 1, exclude_max=True))
def test_the_next_tick_is_the_same_from_anywhere_before_it(
    cron: str, zone: str, moment: int, share: float
) -> None:
    cadence = cron_cadence(cron, zone)
    first = cadence.after(moment)
    assert first is not None
    assert first > moment
    second = cadence.after(first)
    assert second is not None
    assert cadence.after(first + int((second - first) * share)) == second
    assert cadence.after(second - 1) == second


@given(
    cadence=st.one_of(
        st.builds(cron_cadence, CRONS, ZONES),
        st.builds(every_cadence, st.floats(0.1, 100_000)),
    ),
    start=MOMENTS,
    length=st.integers(0, 400),
    most=st.integers(1, 100),
    anchor=MOMENTS,
)
def test_the_ticks_between_two_moments_are_the_latest_of_all(
    cadence: Cadence, start: int, length: int, most: int, anchor: int
) -> None:
    every: list[int] = []
    moment: int | None = start
    for _ in range(length):
        assert moment is not None
        moment = cadence.after(moment, anchor)
        assert moment is not None
        every.append(moment)
    until = every[-1] if every else start
    assert cadence.between(start, until, most, anchor) == (every[-most:], len(every) > most)


def test_after_a_year_the_latest_second_is_found_at_once() -> None:
    cadence = cron_cadence("* * * * * *", BERLIN)
    found, more = cadence.between(ms("2026-01-01T00:00:00Z"), ms("2027-01-01T00:00:00Z"), 1)
    assert (found, more) == ([ms("2027-01-01T00:00:00Z")], True)


@given(every=st.floats(0.1, 1_000_000), anchor=MOMENTS, moment=MOMENTS)
def test_intervals_are_counted_from_their_anchor(every: float, anchor: int, moment: int) -> None:
    cadence = every_cadence(every)
    tick = cadence.after(moment, anchor)
    assert tick is not None
    assert moment < tick <= moment + cadence.every_ms
    assert (tick - anchor) % cadence.every_ms == 0


@pytest.mark.parametrize("every", [30, 30.0, timedelta(seconds=30)])
def test_an_interval_is_seconds_or_a_timedelta(every: object) -> None:
    assert every_cadence(every).every_ms == 30_000


@pytest.mark.parametrize(
    "every", [0, 0.09, -1, timedelta(0), True, "30", None, float("nan"), float("inf"), 10**20]
)
def test_what_is_no_interval_is_refused(every: object) -> None:
    with pytest.raises(ConfigError, match="every"):
        every_cadence(every)


@pytest.mark.parametrize(
    ("cron", "problem"),
    [
        ("", "five fields"),
        ("* * * *", "five fields"),
        ("* * * * * * *", "five fields"),
        ("60 * * * *", "minute"),
        ("* 24 * * *", "hour"),
        ("* * 0 * *", "day-of-month"),
        ("* * * 13 *", "month"),
        ("* * * * 8", "day-of-week"),
        ("60 * * * * *", "second"),
        ("*/0 * * * *", "minute"),
        ("a b c d e", "minute"),
        ("0 0 31 2 *", "day-of-month"),
        ("9" * 5000 + " * * * *", "not one"),
        ("@reboot", "@daily"),
        ("@", "@daily"),
        (5, "text"),
        (None, "text"),
        (b"* * * * *", "text"),
    ],
)
def test_what_is_no_cron_expression_is_refused(cron: object, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        cron_cadence(cron, "UTC")


def test_a_time_that_never_comes_is_refused() -> None:
    with pytest.raises(ConfigError, match="never"):
        cron_cadence("0 0 */40 * 1#5", "UTC")


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_is_a_cron_expression_or_refused(text: str) -> None:
    try:
        cadence = cron_cadence(text, "UTC")
    except ConfigError:
        return
    assert cadence.after(0) is not None


@pytest.mark.parametrize(
    "zone", ["Mars/Olympus", "", "Europe", "../etc/passwd", "/etc/localtime", "x\0", 5, None, UTC]
)
def test_what_is_no_time_zone_is_refused(zone: object) -> None:
    with pytest.raises(ConfigError, match="zone"):
        cron_cadence("* * * * *", zone)


def test_a_zone_that_is_not_known_here_is_no_end_of_time() -> None:
    with pytest.raises(ConfigError, match="Mars/Olympus"):
        Cadence("* * * * *", zone="Mars/Olympus").after(0)


def test_spaces_and_the_case_of_names_do_not_make_another_cadence() -> None:
    assert cron_cadence(" @Daily ", "UTC") == cron_cadence("@daily", "UTC")
    assert cron_cadence("0  0 * *\t*", "UTC") == cron_cadence("0 0 * * *", "UTC")


def test_there_is_an_end_of_time() -> None:
    assert cron_cadence("@yearly", "UTC").after(ms("9999-06-01T00:00:00Z")) is None
