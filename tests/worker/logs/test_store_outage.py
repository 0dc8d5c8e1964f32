"""A store that fails is logged once, however many parts of the worker notice."""

from __future__ import annotations

import pytest

from headrace.errors import StoreFull, StoreUnavailable
from headrace.worker.logs.store_outage import StoreOutage
from headrace.worker.service import Service
from tests.worker.logs.records import Records


class Time:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def outage(time: Time) -> StoreOutage:
    return StoreOutage(time)


@pytest.fixture
def records(caplog: pytest.LogCaptureFixture) -> Records:
    return Records(caplog)


def test_an_outage_is_one_line_and_its_end_another(
    outage: StoreOutage, time: Time, records: Records
) -> None:
    for part in ("reader", "settler", "reader"):
        outage.trouble(part, f"the {part} waits", StoreUnavailable(f"refused ({part})"))
    time.now += 2
    outage.well("reader")
    outage.well("promoter")
    assert records.texts() == [
        "the store does not answer, and the worker waits for it: refused (reader)"
    ]
    time.now += 1
    outage.well("settler")
    assert records.texts()[1:] == ["the store answers again, after 3 s"]
    assert records()[0].error == "refused (reader)"
    assert records()[1].seconds == 3.0


def test_a_store_that_says_why_it_is_not_ready_is_quoted_once(
    outage: StoreOutage, time: Time, records: Records
) -> None:
    for seconds, error in (
        (0, StoreUnavailable("refused")),
        (1, StoreUnavailable("closed")),
        (2, StoreUnavailable("loading", answered=True)),
        (3, StoreUnavailable("loading", answered=True)),
    ):
        time.now += seconds
        outage.trouble("reader", "the reader waits", error)
    assert records.texts()[1:] == ["the worker has waited for the store for 3 s: loading"]


def test_a_long_outage_is_named_once_a_minute(
    outage: StoreOutage, time: Time, records: Records
) -> None:
    for _ in range(13):
        outage.trouble("reader", "the reader waits", StoreUnavailable("refused"))
        time.now += 10
    assert records.texts()[1:] == [
        "the worker has waited for the store for 60 s: refused",
        "the worker has waited for the store for 120 s: refused",
    ]


def test_other_trouble_is_named_once_with_the_part_that_has_it(
    outage: StoreOutage, records: Records
) -> None:
    full = StoreFull("no memory left")
    outage.trouble("settler", "the settler waits", full)
    outage.trouble("reader", "the reader waits", full)
    outage.trouble("settler", "the settler waits", full)
    outage.well("settler")
    assert records.texts() == ["the settler waits: no memory left"]
    outage.well("reader")
    assert records.texts()[1:] == ["over: the reader waits"]


def test_a_full_store_that_answers_is_still_full(outage: StoreOutage, records: Records) -> None:
    outage.trouble("reader", "the reader waits", StoreFull("no room left"))
    outage.answers("reader")
    outage.trouble("reader", "the reader waits", StoreFull("no room left"))
    assert records.texts() == ["the reader waits: no room left"]
    outage.well("reader")
    assert records.texts()[1:] == ["over: the reader waits"]
    outage.trouble("reader", "the reader waits", StoreUnavailable("refused"))
    outage.answers("reader")
    assert records.texts()[3:] == ["the store answers again, after <1 ms"]


def test_parts_that_end_do_not_say_that_the_store_answers(
    outage: StoreOutage, records: Records
) -> None:
    outage.trouble("reader", "the reader waits", StoreUnavailable("refused"))
    outage.leave("reader")
    outage.trouble("relay", "the relay waits", StoreUnavailable("refused"))
    assert len(records()) == 1


def broken() -> StoreUnavailable:
    return StoreUnavailable("Connection closed by server", sent=True)


def test_connections_that_broke_in_an_outage_are_no_second_one(
    outage: StoreOutage, time: Time, records: Records
) -> None:
    outage.trouble("reader", "the reader waits", broken())
    outage.well("reader")
    for part in ("reader", "heartbeat"):
        time.now += 0.4
        outage.trouble(part, f"the {part} waits", broken())
        outage.well(part)
    assert len(records()) == 2


def test_an_outage_right_after_another_is_said(
    outage: StoreOutage, time: Time, records: Records
) -> None:
    outage.trouble("reader", "the reader waits", broken())
    outage.well("reader")
    time.now += 1
    outage.trouble("reader", "the reader waits", broken())
    outage.trouble("reader", "the reader waits", StoreUnavailable("refused"))
    outage.well("reader")
    # A server that takes connections and drops them is away too.
    for _ in range(4):
        outage.trouble("reader", "the reader waits", broken())
    assert [text.split(",")[0] for text in records.texts()] == [
        "the store does not answer",
        "the store answers again",
    ] * 2 + ["the store does not answer"]


def test_a_connection_that_breaks_long_after_an_outage_is_said(
    outage: StoreOutage, time: Time, records: Records
) -> None:
    outage.trouble("reader", "the reader waits", broken())
    outage.well("reader")
    time.now += 61
    outage.trouble("reader", "the reader waits", broken())
    assert len(records()) == 3


class Failing(Service):
    name = "reader"

    def __init__(self, errors: list[StoreUnavailable]) -> None:
        super().__init__()
        self._errors = errors

    async def step(self) -> float:
        if self._errors:
            raise self._errors.pop(0)
        return 7.0


async def test_broken_connections_do_not_put_off_the_next_try_of_a_service() -> None:
    away = [StoreUnavailable("refused") for _ in range(7)]
    broken = [StoreUnavailable("closed", sent=True) for _ in range(4)]
    service = Failing([*away, *broken])
    rests = [await service._one_step() for _ in range(12)]
    # The last one shows that more is wrong than connections of before.
    assert rests == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 0.1, 0.1, 0.1, 5.0, 7.0]
