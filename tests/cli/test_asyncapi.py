"""`headrace asyncapi`: the document of an app's topics."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from headrace.cli import main
from tests.core.topic.test_asyncapi import assert_valid

MARKET = '''
from dataclasses import dataclass
from datetime import timedelta

from headrace import Headrace, Retry

app = Headrace("redis://user:s3cret@db.example:6380/2", namespace="market")


@dataclass
class OrderPaid:
    order_id: str
    cents: int


orders = app.topic(
    "orders",
    OrderPaid,
    key=lambda event: event.order_id,
    retention=timedelta(days=7),
    codec="json",
    version=2,
    upcast=lambda old, version: old,
)
blobs = app.topic("blobs", bytes, codec="raw")


@orders.subscribe("billing", retry=Retry(5), max_in_flight=64)
async def bill(event: OrderPaid) -> None:
    """Send the bill.

    By mail.
    """


@orders.subscribe("ledger", ordered=True, on_failure="block")
async def ledger(event: OrderPaid) -> None: ...


@orders.broadcast
async def drop_cache(event: OrderPaid) -> None: ...
'''


@pytest.fixture
def market(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An app with topics, as the command line names it."""
    name = f"market_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(MARKET)
    for variable in ("HEADRACE_URL", "HEADRACE_NAMESPACE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return f"{name}:app"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["asyncapi", *arguments])


def printed(*arguments: str) -> Any:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_the_document_of_an_app_is_valid(market: str) -> None:
    found = printed(market)
    assert_valid(found)
    assert found["info"] == {"title": "market", "version": "1.0.0"}
    assert found["servers"]["store"]["host"] == "db.example:6380"
    assert list(found["channels"]) == ["orders", "blobs"]


def test_it_shows_topics_and_groups_what_they_declare(market: str) -> None:
    found = printed(market, "--json")
    orders = found["channels"]["orders"]
    assert orders["x-headrace"] == {"shards": 1, "retention": 604800.0, "keyed": True}
    message = orders["messages"]["OrderPaid"]
    assert message["contentType"] == "application/json"
    assert message["x-headrace"] == {"codec": "json", "version": 2}
    billing = found["operations"]["receive_orders_billing"]
    assert billing["summary"] == "Send the bill."
    assert billing["x-headrace"]["retry"]["max_attempts"] == 5
    assert billing["x-headrace"]["max_in_flight"] == 64
    assert found["operations"]["receive_orders_ledger"]["x-headrace"]["on_failure"] == "block"
    assert found["operations"]["receive_orders_drop_cache"]["x-headrace"]["broadcast"] is True


def test_title_and_version_can_be_given(market: str) -> None:
    found = printed("--app", market, "--title", "Market", "--version", "2.1.0")
    assert found["info"] == {"title": "Market", "version": "2.1.0"}


def test_no_password_is_printed(market: str) -> None:
    assert "s3cret" not in run(market).output


def test_an_app_without_topics_has_a_valid_document_too(shop: Path) -> None:
    found = printed("shop:app")
    assert_valid(found)
    assert found["channels"] == {}


def test_an_app_must_be_named(shop: Path) -> None:
    result = run()
    assert result.exit_code == 2
    assert result.stderr == ("headrace: say which app: module:attribute, for example shop:app\n")
