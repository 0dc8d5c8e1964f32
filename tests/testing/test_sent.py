"""What was sent and published is remembered, whichever way it went, and can be asserted."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from unittest.mock import ANY

import pytest

from headrace import ConfigError, Context, Headrace, QueueFull, chain
from headrace.errors import ArgumentError
from headrace.outbox import Outbox
from headrace.testing import TestKit

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@dataclass
class Paid:
    order: str
    cents: int


app = Headrace("memory://")
app.queue("tiny", max_length=1)
orders = app.topic("orders", Paid)


@app.task
async def send_mail(ctx: Context, to: str, subject: str = "Hi", *, cc: tuple[str, ...] = ()) -> str:
    await archive.enqueue(to)
    return to


@app.task
async def report(day: date, count: int = 1) -> str:
    return f"{day} {count}"


@app.task(debounce=5)
async def index(doc: int) -> None: ...


@app.task(unique=True)
async def archive(to: str) -> None: ...


@app.task
def many(*parts: int, **more: str) -> None: ...


@app.every(60, queue="ticks")
async def tick() -> None: ...


@orders.subscribe("billing")
async def bill(paid: Paid) -> None:
    await report.enqueue(date(2026, 1, 1))


@pytest.fixture
def kit():  # type: ignore[no-untyped-def]
    with app.testing(now=NOW) as headrace:
        yield headrace


class TestWhatIsListed:
    async def test_every_way_of_sending(self, kit: TestKit) -> None:
        await send_mail.enqueue("ada")
        await app.enqueue_many([report.call(date(2026, 1, 1), 3), many.call(1, 2, x="y")])
        await app.enqueue(chain(report.call(date(2026, 1, 2)), send_mail.call(subject="later")))
        await orders.publish(Paid("o-1", 5))
        assert sorted(map(repr, kit.sent())) == [
            "many(parts=(1, 2), x='y')",
            "report(day=datetime.date(2026, 1, 1), count=3)",
            "report(day=datetime.date(2026, 1, 2), count=1)",
            "send_mail(subject='later', cc=())",
            "send_mail(to='ada', subject='Hi', cc=())",
        ]
        assert kit.published(orders) == kit.published("orders") == [Paid("o-1", 5)]

    def test_sending_without_an_event_loop(self, kit: TestKit) -> None:
        send_mail.enqueue_sync("ada")
        kit.assert_sent(send_mail, "ada")

    async def test_what_jobs_handlers_and_schedules_send(self, kit: TestKit) -> None:
        await send_mail.enqueue("ada")
        await orders.publish(Paid("o-1", 5))
        await kit.drain()
        kit.assert_sent(archive, to="ada")
        kit.assert_sent(report, day=date(2026, 1, 1))
        kit.clock.advance(minutes=1)
        await kit.drain()
        assert {each.schedule for each in kit.sent(tick)} == {"tick"}

    async def test_what_an_outbox_relays(self, kit: TestKit, tmp_path: Path) -> None:
        outbox = Outbox(app)
        with closing(sqlite3.connect(tmp_path / "shop.db")) as connection, connection:
            outbox.create(connection)
            outbox.enqueue(connection, send_mail.call("ada"))
        kit.assert_not_sent(send_mail)
        relay = outbox.relay(f"sqlite:///{tmp_path / 'shop.db'}")
        assert await relay.step() == 1
        await relay.close()
        kit.assert_sent(send_mail, to="ada", count=1)

    async def test_options_by_name(self, kit: TestKit) -> None:
        options = {"key": "k", "queue": "slow", "priority": 4, "headers": {"a": "b"}}
        job = await send_mail.options(delay=60, tags=["x"], **options).enqueue("bob")  # type: ignore[arg-type]
        (sent,) = kit.sent(send_mail)
        assert (sent.id, sent.delay, sent.at) == (job.id, 60, NOW + timedelta(minutes=1))
        assert (sent.key, sent.queue, sent.priority) == ("k", "slow", 4)
        assert (sent.headers, sent.tags, sent.expires) == ({"a": "b"}, ("x",), None)
        said = "with delay=60, queue='slow', key='k', priority=4, headers={'a': 'b'}, tags=('x',)"
        assert repr(sent).endswith(said)

    async def test_what_is_there_already_or_refused_is_not_counted(self, kit: TestKit) -> None:
        await archive.enqueue("ada")
        await archive.enqueue("ada")
        kit.assert_sent(archive, count=1)
        await index.options(unique="one").enqueue(1)
        await index.options(unique="one").enqueue(2)
        assert [each.arguments for each in kit.sent(index)] == [{"doc": 2}]
        await report.options(queue="tiny").enqueue(date(2026, 1, 1))
        with pytest.raises(QueueFull):
            await report.options(queue="tiny").enqueue(date(2026, 1, 2))
        assert len(kit.sent(report)) == 1

    def test_each_test_begins_with_nothing(self, kit: TestKit) -> None:
        assert kit.sent() == []
        assert kit.published(orders) == []


class TestAsserting:
    async def test_what_is_not_given_may_be_anything(self, kit: TestKit) -> None:
        await send_mail.enqueue("ada", "Yo", cc=("bob",))
        (sent,) = kit.assert_sent(send_mail, to="ada", delay=0)
        assert sent.arguments == {"to": "ada", "subject": "Yo", "cc": ("bob",)}
        kit.assert_sent(send_mail, "ada", subject=ANY)
        # As it travels: a list is what the task gets as a tuple.
        kit.assert_sent(send_mail, cc=["bob"])
        kit.assert_sent("send_mail", to="ada")
        kit.assert_not_sent(send_mail, to="bob")
        kit.assert_not_sent(report)

    async def test_times(self, kit: TestKit) -> None:
        await send_mail.options(at=NOW + timedelta(hours=1)).enqueue("ada")
        kit.assert_sent(send_mail, at=NOW + timedelta(hours=1))
        kit.assert_sent(send_mail, delay=timedelta(hours=1))
        kit.assert_not_sent(send_mail, delay=0)

    async def test_a_call_says_all_arguments(self, kit: TestKit) -> None:
        await report.enqueue(date(2026, 1, 1), 3)
        kit.assert_sent(report.call(date(2026, 1, 1), count=3), count=1)
        kit.assert_not_sent(report.call(date(2026, 1, 1)))
        await report.options(queue="slow").enqueue(date(2026, 1, 2))
        kit.assert_sent(report.options(queue="slow"), date(2026, 1, 2))
        kit.assert_not_sent(report.options(queue="slow"), date(2026, 1, 1))

    async def test_every_option(self, kit: TestKit) -> None:
        options = send_mail.options(
            priority=4, headers={"a": "b", "c": "d"}, tags=["x", "y"], expires=90, delay=60
        )
        await options.enqueue("ada")
        kit.assert_sent(send_mail, priority=4, headers={"a": "b"}, tags=["y"], expires=90)
        kit.assert_sent(send_mail, expires=timedelta(seconds=90))
        kit.assert_sent(send_mail, expires=NOW + timedelta(seconds=90), tags={"x", "y"})
        kit.assert_sent(options, "ada")
        await send_mail.enqueue("bob")
        for wrong in (
            {"priority": 5},
            {"headers": {"a": "c"}},
            {"tags": ["z"]},
            {"expires": 60},
            {"expires": NOW},
        ):
            kit.assert_not_sent(send_mail, **wrong)
        with pytest.raises(ConfigError, match="tags= must be a list of texts, not 'x'"):
            kit.assert_sent(send_mail, tags="x")


class TestMessages:
    async def test_the_nearest_comes_first_with_what_differs(self, kit: TestKit) -> None:
        await send_mail.enqueue("cy")
        await send_mail.options(delay=60).enqueue("bob")
        with pytest.raises(AssertionError) as failed:
            kit.assert_sent(send_mail, to="ada", delay=60)
        assert str(failed.value).splitlines() == [
            "'send_mail' was not sent with to='ada', delay=60; nearest first, sent were:",
            "  - send_mail(to='bob', subject='Hi', cc=()) with delay=60",
            "      to='bob', not 'ada'",
            "  - send_mail(to='cy', subject='Hi', cc=())",
            "      to='cy', not 'ada'; delay=0.0, not 60",
        ]

    async def test_arguments_say_more_than_options(self, kit: TestKit) -> None:
        await send_mail.options(delay=60, queue="slow").enqueue("bob")
        await send_mail.options(tags=["x"]).enqueue("ada")
        with pytest.raises(AssertionError) as failed:
            kit.assert_sent(send_mail, to="ada", delay=60, queue="slow")
        assert str(failed.value).splitlines()[1:3] == [
            "  - send_mail(to='ada', subject='Hi', cc=()) with tags=('x',)",
            "      delay=0.0, not 60; queue='default', not 'slow'",
        ]

    async def test_others_if_there_is_none_of_the_task(self, kit: TestKit) -> None:
        with pytest.raises(AssertionError, match="'report' was not sent; nothing was sent"):
            kit.assert_sent(report)
        await app.enqueue_many([send_mail.call(f"m{n}") for n in range(7)])
        with pytest.raises(AssertionError, match=r"(?s)sent were:.*to='m0'.*and 2 more"):
            kit.assert_sent(report)

    async def test_counts(self, kit: TestKit) -> None:
        await send_mail.enqueue("ada")
        with pytest.raises(AssertionError, match="was sent once with to='ada', not 2 times"):
            kit.assert_sent(send_mail, to="ada", count=2)
        with pytest.raises(AssertionError, match="was sent with to='ada', and should not have"):
            kit.assert_not_sent(send_mail, to="ada")

    async def test_a_test_that_asks_wrongly_hears_of_it(self, kit: TestKit) -> None:
        with pytest.raises(ArgumentError, match=r"'too'; its arguments are to, subject, cc"):
            kit.assert_not_sent(send_mail, too="ada")
        with pytest.raises(ConfigError, match=r"published\('orders'\) lists events"):
            kit.assert_sent(bill)
        with pytest.raises(ConfigError, match="the app has no topic 'order'; it has orders"):
            kit.published("order")
        with pytest.raises(ConfigError, match="no task 'send_mial'; did you mean 'send_mail'"):
            kit.assert_not_sent("send_mial")
        with pytest.raises(ConfigError, match=r"has an argument 'count'.*report.call\(…\), count="):
            kit.assert_sent(report, count=1)
        with pytest.raises(ConfigError, match="a call has its arguments"):
            kit.assert_sent(send_mail.call("ada"), "ada")
        with pytest.raises(ConfigError, match="task of another app"):
            kit.sent(Headrace("memory://").task(test_unknown))
        await send_mail.enqueue("ada")
        with pytest.raises(ConfigError, match="aware datetime"):
            kit.assert_sent(send_mail, at=datetime(2026, 1, 1))


def test_unknown() -> None:
    """A function of no app."""
