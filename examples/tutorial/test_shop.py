# test_shop.py
from datetime import timedelta
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from headrace.testing import TestKit

from shop import ask_for_review, send_receipt
from web import web


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def letters() -> list[str]:
    return Path("mail.txt").read_text().splitlines()


def test_an_order_sends_a_receipt_and_in_three_days_a_question(headrace: TestKit) -> None:
    with TestClient(web) as client:
        client.post("/orders", json={"mail": "ada@example.org", "total": 995})
    headrace.assert_sent(send_receipt, "ada@example.org", 995, delay=0)
    headrace.assert_sent(ask_for_review, to="ada@example.org", delay=timedelta(days=3))

    headrace.drain_sync()
    assert letters() == ["ada@example.org: thank you for 995 cents"]
    headrace.clock.advance(days=3)
    headrace.drain_sync()
    assert "ada@example.org: how do you like it?" in letters()


def test_a_receipt_waits_for_the_mail_server(headrace: TestKit) -> None:
    Path("mail-is-down").touch()
    job = send_receipt.enqueue_sync("ada@example.org", 995)
    with pytest.raises(ConnectionError):
        headrace.drain_sync()
    assert job.status_sync() == "scheduled"

    Path("mail-is-down").unlink()
    headrace.clock.advance(minutes=1)
    headrace.drain_sync()
    assert job.result_sync(timeout=1) == "sent to ada@example.org"


def test_the_owner_gets_a_report_each_morning(headrace: TestKit) -> None:
    headrace.drain_sync()
    headrace.clock.advance(days=1)
    headrace.drain_sync()
    assert letters() == ["owner@example.org: 0 letters so far"]
