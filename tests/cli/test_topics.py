"""`headrace topics`, and the commands about queues and jobs that also take a group."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from headrace import Headrace
from headrace.cli import main
from headrace.cli.app_loader import load_app

MARKET = """
import os

import msgspec
from headrace import Headrace, Reject, Retry

app = Headrace(os.environ["MARKET_URL"], namespace=os.environ["MARKET_NAMESPACE"])


class Order(msgspec.Struct):
    order_id: str
    cents: int = 0


orders = app.topic("orders", Order, key=lambda order: order.order_id, source="shop", shards=2)
blobs = app.topic("blobs", bytes, codec="raw")


@orders.subscribe("billing", ordered=True, retry=Retry(1))
async def bill(order: Order) -> None:
    if not order.cents:
        raise Reject(f"{order.order_id} costs nothing")


@orders.subscribe("mail")
async def mail(order: Order) -> None: ...
"""


class Market:
    """An app with a topic, on one kind of store, and commands about it."""

    def __init__(self, module: str) -> None:
        self.name = f"{module}:app"
        self.app: Headrace = load_app(self.name)
        self.orders: Any = self.app.topics["orders"]

    def run(self, *arguments: str) -> Result:
        return CliRunner().invoke(main, [*arguments, "--app", self.name])

    def said(self, *arguments: str) -> str:
        result = self.run(*arguments)
        assert result.exit_code == 0, result.stderr
        return result.stdout

    def json(self, *arguments: str) -> Any:
        return json.loads(self.said(*arguments, "--json"))

    def refused(self, *arguments: str, code: int) -> str:
        result = self.run(*arguments)
        assert result.exit_code == code, result.output
        (line,) = result.stderr.splitlines()
        return line

    def published(self, *events: tuple[str, int]) -> list[str]:
        """Publish orders, each with its price."""
        kind = self.orders.event_type

        async def publish() -> list[str]:
            async with self.app:
                return [await self.orders.publish(kind(*event)) for event in events]

        return asyncio.run(publish())

    def worked(self, **wanted: int) -> None:
        """Have a worker serve billing until its counts are as wanted."""

        async def work() -> None:
            async with self.app, self.app.worker(queues=["billing@orders"]), asyncio.timeout(20):
                while True:
                    info = await self.app.admin.queue("billing@orders")
                    if all(getattr(info, name) == count for name, count in wanted.items()):
                        return
                    await asyncio.sleep(0.02)

        asyncio.run(work())


@pytest.fixture(params=["sqlite", "redis"])
def market(
    request: pytest.FixtureRequest,
    shop: Path,
    namespace: str,
    monkeypatch: pytest.MonkeyPatch,
) -> Market:
    # A name of its own: what was imported before has another store.
    module = f"market_{namespace.replace('-', '_')}"
    (shop / f"{module}.py").write_text(MARKET)
    url = f"sqlite:///{shop}/jobs.db"
    if request.param == "redis":
        url = request.getfixturevalue("redis_url")
    monkeypatch.setenv("MARKET_URL", url)
    monkeypatch.setenv("MARKET_NAMESPACE", namespace)
    return Market(module)


def test_a_table_of_topics_with_a_row_for_each_group(market: Market) -> None:
    market.published(("a", 0), ("a", 1), ("b", 1))
    market.worked(dead=1, blocked=1, running=0, waiting=0)
    heading, blobs, billing, mail = market.said("topics").splitlines()
    assert heading.split() == [
        "TOPIC", "LENGTH", "GROUP", "LAG", "BEHIND", "RUNNING", "BLOCKED", "DEAD", "OLDEST",
        "STATE",
    ]  # fmt: skip
    assert blobs.split() == ["blobs", "0", "(none)", "0", "0", "0", "0", "0"]
    assert billing.split()[:8] == ["orders", "3", "billing", "1", "0", "0", "1", "1"]
    assert "1 key stopped for " in billing
    assert mail.split()[:8] == ["orders", "3", "mail", "3", "3", "0", "0", "0"]
    assert mail.split()[-1] in {"ms", "s"}
    market.said("queues", "pause", "mail@orders")
    assert market.said("topics", "list").splitlines()[3].endswith("paused")


def test_topics_as_json(market: Market) -> None:
    market.published(("a", 0))
    market.worked(dead=1)
    _, orders = market.json("topics")
    assert (orders["name"], orders["length"], len(orders["shards"])) == ("orders", 1, 2)
    billing, mail = orders["groups"]
    assert (billing["dead"], billing["stopped_keys"], billing["gone"]) == (1, 1, False)
    assert (mail["behind"], mail["on_failure"], mail["paused"]) == (1, "skip", False)
    # In seconds.
    assert 0 <= mail["age"] < 600
    assert market.json("topics", "show", "orders")["groups"][0]["name"] == "billing"


def test_show_says_all_of_one_topic(market: Market) -> None:
    market.published(("a", 0), ("a", 1))
    market.worked(dead=1, blocked=1)
    text = market.said("topics", "show", "orders").splitlines()
    assert text[:2] == ["topic      orders", "length     2"]
    assert text[2] == "last hour  2 published"
    assert text[3].startswith("shards     @orders ")
    assert "LAST SEEN" in text[5]
    assert text[6].startswith("billing  by key, block")
    assert "groups     none (yet)" in market.said("topics", "show", "blobs").splitlines()


def test_events_are_read_from_the_oldest_or_after_one(market: Market) -> None:
    first, second, third = market.published(("a", 1), ("b", 2), ("c", 3))
    heading, one, *_ = market.said("topics", "read", "orders").splitlines()
    assert heading.split() == ["TIME", "ID", "KEY", "TYPE", "EVENT"]
    assert one.endswith(f"{first}  a    Order  {{'order_id': 'a', 'cents': 1}}")
    limited = market.run("topics", "read", "orders", "--limit", "1")
    assert len(limited.stdout.splitlines()) == 2
    assert "more than 1" in limited.stderr
    rest = market.json("topics", "read", "orders", "--after", first)
    assert [event["id"] for event in rest] == [second, third]
    assert rest[0]["data"] == {"order_id": "b", "cents": 2}
    assert (rest[0]["key"], rest[0]["source"], rest[0]["version"]) == ("b", "shop", 1)
    assert len(market.json("topics", "read", "orders", "--after", "1h")) == 3
    assert market.said("topics", "read", "blobs") == "no such events\n"
    assert "does not hold event never" in market.refused(
        "topics", "read", "orders", "--after", "never", code=1
    )


def test_an_event_cannot_steer_the_terminal(market: Market) -> None:
    event = json.dumps({"order_id": "\x1b[31mred"})
    market.said("topics", "publish", "orders", event, "--key", "a")
    assert "\x1b" not in market.said("topics", "read", "orders")
    assert "\x1b" not in market.said("jobs", "list", "-Q", "mail@orders")


def test_an_event_is_published_from_json(market: Market) -> None:
    event = '{"order_id": "a", "cents": 7}'
    id = market.said("topics", "publish", "orders", event).strip()
    answer = market.json("topics", "publish", "orders", event, "--id", "mine", "--key", "b")
    assert answer == {"id": "mine"}
    one, other = market.json("topics", "read", "orders")
    assert (one["id"], one["key"], one["data"]["cents"]) == (id, "a", 7)
    assert (other["id"], other["key"]) == ("mine", "b")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["orders", "nonsense"], "is not Order in JSON"),
        (["orders", '{"cents": 1}'], "its field 'order_id' is missing"),
        (["orders", '{"order_id": 1}'], "expected `str`"),
        (["pages", "{}"], "declares no topic 'pages', but orders, blobs"),
        (["orders"], "give topic and event"),
    ],
)
def test_what_is_no_event_is_not_published(market: Market, words: list[str], text: str) -> None:
    assert text in market.refused("topics", "publish", *words, code=2)


def test_publishing_needs_an_app(market: Market) -> None:
    market.published(("a", 1))
    store = ["--url", market.app.url, "--namespace", market.app.namespace]
    result = CliRunner().invoke(main, ["topics", "publish", "orders", "{}", *store])
    assert result.exit_code == 2
    assert "name an APP that does" in result.stderr
    read = CliRunner().invoke(main, ["topics", "read", "orders", "--json", *store])
    assert json.loads(read.stdout)[0]["data"] == {"order_id": "a", "cents": 1}


def test_a_group_is_rewound(market: Market) -> None:
    market.published(("a", 1), ("b", 1))
    market.worked(waiting=0, running=0)
    line = market.refused("topics", "rewind", "orders", "billing", "--to", "start", code=2)
    assert "--yes" in line
    said = market.said("topics", "rewind", "orders", "billing", "--to", "start", "--yes")
    assert said == "rewound billing of orders to start\n"
    assert market.json("topics", "show", "orders")["groups"][0]["behind"] == 2
    market.said("topics", "rewind", "orders", "billing", "--to", "new", "--yes")
    assert market.json("topics", "show", "orders")["groups"][0]["behind"] == 0
    market.said("topics", "rewind", "orders", "billing", "--to", "1h", "--yes")
    assert market.json("topics", "show", "orders")["groups"][0]["behind"] == 2
    for where, group, text in (("never", "billing", "event never"), ("new", "x", "no group 'x'")):
        arguments = ("topics", "rewind", "orders", group, "--to", where, "--yes")
        assert text in market.refused(*arguments, code=1)


def test_stopped_keys_are_listed_and_freed(market: Market) -> None:
    dead, _ = market.published(("a", 0), ("a", 1))
    market.worked(dead=1, blocked=1)
    for asked in (("topics", "list"), ("topics", "show", "orders")):
        said = market.said(*asked)
        assert "1 key stopped for " in said
        assert said.count("1 event blocked") == 1
    checked = market.run("check").output
    assert "1 key stopped for " in checked
    assert "1 event blocked: headrace topics keys orders billing\n" in checked
    told = market.json("topics", "show", "orders")["groups"][0]
    assert (told["lag"], told["behind"], told["stopped_events"]) == (1, 0, 1)
    heading, row = market.said("topics", "keys", "orders", "billing").splitlines()
    assert heading.split() == ["KEY", "STATE", "SINCE", "WAITING", "EVENT"]
    assert row.split()[:2] == ["a", "blocked"]
    assert row.split()[-2:] == ["1", dead]
    assert market.json("topics", "keys", "orders", "billing")[0]["event"] == dead
    assert "is not stopped" in market.refused("topics", "free", "orders", "billing", "b", code=1)
    assert market.said("topics", "free", "orders", "billing", "a") == "freed key a\n"
    assert market.said("topics", "keys", "orders", "billing") == "no stopped keys\n"
    market.worked(dead=1, blocked=0, waiting=0, running=0)


def test_a_group_is_removed(market: Market) -> None:
    market.published(("a", 0))
    market.worked(dead=1)
    assert "--yes" in market.refused("topics", "remove", "orders", "billing", code=2)
    answer = market.json("topics", "remove", "orders", "billing", "--yes")
    assert answer == {"removed": {"topic": "orders", "group": "billing"}}
    assert [g["name"] for g in market.json("topics", "show", "orders")["groups"]] == ["mail"]
    assert market.said("dead", "list") == "no dead jobs\n"
    assert "has no group 'billing'" in market.refused(
        "topics", "remove", "orders", "billing", "--yes", code=1
    )


def test_dead_events_are_seen_and_replayed_like_jobs(market: Market) -> None:
    (id,) = market.published(("a", 0))
    market.worked(dead=1)
    (row,) = market.said("dead", "list", "-Q", "billing@orders").splitlines()[1:]
    assert id in row
    assert "a costs nothing" in row
    text = market.said("dead", "show", id).splitlines()
    for line in ("topic      orders", "key        a", "source     shop"):
        assert line in text
    assert "event      {'order_id': 'a', 'cents': 0}" in text
    (answer,) = market.json("dead", "list")
    assert (answer["event"]["topic"], answer["arguments"]["order_id"]) == ("orders", "a")
    assert "its key 'a' is stopped" in market.said("jobs", "why", id).lower()
    assert market.said("dead", "replay", "-Q", "billing@orders") == "replayed 1 job\n"
    (waiting,) = market.json("jobs", "list", "-Q", "billing@orders")
    assert (waiting["id"], waiting["state"], waiting["key"]) == (id, "waiting", "a")
    shown = market.json("jobs", "show", id, "-Q", "billing@orders")
    assert (shown["event"]["key"], shown["arguments"]["order_id"]) == ("a", "a")
    assert "source     shop" in market.said("jobs", "show", id).splitlines()


def test_a_group_is_paused_like_a_queue(market: Market) -> None:
    market.published(("a", 1))
    assert market.said("queues", "pause", "billing@orders") == "paused queue billing@orders\n"
    assert market.said("queues").startswith("no queues")
    assert market.json("topics", "show", "orders")["groups"][0]["paused"]
    market.said("queues", "resume", "billing@orders")
    assert not market.json("topics", "show", "orders")["groups"][0]["paused"]
    assert "no group 'biling'" in market.refused("queues", "pause", "biling@orders", code=1)
    assert "name a group" in market.refused("queues", "pause", "@orders", code=2)


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["show", "pages"], 1, "there is no topic 'pages'"),
        (["read", "pages"], 1, "there is no topic 'pages'"),
        (["show"], 2, "Missing argument"),
        (["keys", "orders"], 2, "give topic and group"),
        (["free", "orders", "billing"], 2, "give topic and group and key"),
        (["rewind", "orders", "billing"], 2, "--to"),
        (["keys", "orders", "nobody"], 1, "has no group 'nobody'"),
    ],
)
def test_what_cannot_be_is_one_line(
    market: Market, arguments: list[str], code: int, text: str
) -> None:
    assert text in market.refused("topics", *arguments, code=code)


def test_an_empty_store_has_no_topics(shop: Path) -> None:
    (shop / "headrace.db").touch()
    assert CliRunner().invoke(main, ["topics"]).stdout.startswith("no topics yet")
    assert json.loads(CliRunner().invoke(main, ["topics", "--json"]).stdout) == []
