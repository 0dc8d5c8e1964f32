"""Minutes that are over are asked for once; charts are drawn from them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from headrace.admin import MinuteStats
from headrace.admin.stats_sum import StatsSum
from headrace.web.rendering.charts import SPANS, charts_of
from headrace.web.stats_cache import Minutes, StatsCache, minute_text

NOW = 29_000_000


class Book:
    """Stands for the admin: what was counted, by minute; and what was asked."""

    def __init__(self) -> None:
        self.done: dict[int, int] = {}
        self.asked: list[int] = []
        self.seconds = NOW * 60 + 30.0
        self.ahead = 0.0
        """By how much the store's clock is ahead of ours, in seconds."""

    @property
    def minute(self) -> int:
        """The running one, by the store's clock."""
        return int((self.seconds + self.ahead) // 60)

    async def now(self) -> datetime:
        return datetime.fromtimestamp(self.seconds + self.ahead, UTC)

    async def stats(
        self,
        minutes: int,
        queue: str | None,
        *,
        now: datetime | None = None,
        most: int | None = None,
    ) -> list[MinuteStats]:
        self.asked.append(minutes)
        last = self.minute if now is None else int(now.timestamp() // 60)
        return [
            MinuteStats(
                datetime.fromtimestamp(minute * 60, UTC),
                queue or "mail",
                "send",
                {"done": count, "dead": 1},
                {0.001: count},
                {4.0: count},
            )
            for minute, count in self.done.items()
            if last - minutes < minute
        ]


@pytest.fixture
def book(monkeypatch: pytest.MonkeyPatch) -> Book:
    book = Book()
    monkeypatch.setattr("headrace.web.stats_cache.time.time", lambda: book.seconds)
    monkeypatch.setattr("headrace.web.stats_cache._MAX_AGE", -1.0)
    return book


async def test_only_the_last_minutes_are_asked_for_again(book: Book) -> None:
    cache, book.done = StatsCache(_admin(book), None), {NOW - 30: 5, NOW: 1}
    first = await cache.minutes(60)
    assert [each.done for each in first.sums if each.done] == [5, 1]
    assert len(first.sums) == 60
    book.done[NOW] = 2
    again = await cache.minutes(60)
    assert again.sums[-1].done == 2
    assert again.sums[-31].done == 5
    book.seconds += 600
    book.done[NOW + 10] = 7
    later = await cache.minutes(60)
    assert [each.done for each in later.sums if each.done] == [5, 2, 7]
    assert book.asked == [60, 3, 13]
    await cache.minutes(15)
    await cache.minutes(360)
    assert book.asked[3:] == [3, 360]


@pytest.mark.parametrize("ahead", [-90.0, -5.0, -0.5, 0.0, 0.5, 5.0, 90.0])
async def test_each_minute_is_counted_once_whatever_the_clock_of_the_store_says(
    book: Book, ahead: float
) -> None:
    cache, book.ahead = StatsCache(_admin(book), None), ahead
    for _ in range(80):
        book.done[book.minute] = book.done.get(book.minute, 0) + 1
        found = await cache.minutes(15)
        wanted = range(book.minute - 14, book.minute + 1)
        assert found.last == book.minute
        assert [each.done for each in found.sums] == [book.done.get(each, 0) for each in wanted]
        book.seconds += 4.25


@pytest.mark.parametrize(("rest", "asked"), [(6, 2), (120, 15)])
async def test_after_a_long_rest_no_minutes_are_left_out(book: Book, rest: int, asked: int) -> None:
    cache = StatsCache(_admin(book), None)
    await cache.minutes(60)
    book.seconds += rest * 60
    book.done = {book.minute - rest // 2: 5}
    await cache.minutes(asked)
    assert (await cache.minutes(90)).sums[-rest // 2 - 1].done == 5


async def test_a_rate_is_of_the_last_whole_minute_and_the_running_one(book: Book) -> None:
    book.done = {NOW - 2: 100, NOW - 1: 60, NOW: 30}
    minutes = await StatsCache(_admin(book), "mail").minutes(15)
    assert minutes.rate(minutes.recent["mail"].done) == 60
    assert minutes.tasks["send"].done == 190
    assert minutes.now.failed == 2


async def test_many_at_once_share_a_look(book: Book, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.web.stats_cache._MAX_AGE", 60.0)
    cache = StatsCache(_admin(book), None)
    for _ in range(3):
        await cache.minutes(60)
    assert book.asked == [60]


@pytest.mark.parametrize("span", SPANS)
def test_charts_say_in_words_what_they_show(span: str) -> None:
    count, step = SPANS[span]
    sums = [StatsSum() for _ in range(count)]
    sums[-1].counts.update({"done": 40 * step, "dead": 2 * step})
    sums[-1].durations[0.004] = 10
    minutes = Minutes(NOW, sums, {}, {}, 60.0)
    done, failed, ran, waited = charts_of(minutes, step)
    assert (done.most, done.description) == ("40", "done latest 40, most 40")
    assert failed.description.startswith("dead latest 2, most 2; retried latest 0")
    assert "median latest 3 ms" in ran.description
    assert waited.description.startswith("median latest nothing")
    assert len(done.times) == count // step
    assert done.times[-1] == minute_text(NOW - step + 1)
    for chart in (done, failed, ran, waited):
        assert "style=" not in chart.svg
        assert 'role="img"' in chart.svg


def test_a_minute_is_shown_in_utc() -> None:
    assert minute_text(0) == "00:00"


def _admin(book: Book) -> Any:
    return book
