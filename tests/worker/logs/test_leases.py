"""What a worker takes over or loses is one line for each queue."""

from __future__ import annotations

import pytest

from headrace.core.job.delivery import LeasedDelivery
from headrace.core.job.envelope import NO_OVERRIDES, encode_envelope
from headrace.core.job.ids import new_id, to_text
from headrace.worker.logs.leases import report_lost, report_taken
from tests.worker.logs.records import Records


@pytest.fixture
def records(caplog: pytest.LogCaptureFixture) -> Records:
    return Records(caplog)


def delivery(queue: str, count: int = 1) -> LeasedDelivery:
    job_id = new_id()
    envelope = encode_envelope(job_id, "task", b"\x90", NO_OVERRIDES, "loop")
    return LeasedDelivery(queue, 1, envelope, count=count)


def id_of(delivery: LeasedDelivery) -> str:
    delivery.identify()
    return to_text(delivery.job_id)


def test_what_is_taken_over_is_named(records: Records) -> None:
    mail = [delivery("mail", 2), delivery("mail", 3)]
    event, fresh = delivery("billing@orders", 2), delivery("mail")
    assert report_taken([*mail, event, fresh]) == {"mail": 2, "billing@orders": 1}
    first, second = records("WARNING")
    assert first.getMessage().startswith("took over 2 jobs of queue 'mail', whose workers died")
    assert first.getMessage().endswith(f": {id_of(mail[0])}, {id_of(mail[1])}")
    assert (first.queue, first.count, first.jobs) == ("mail", 2, [id_of(one) for one in mail])
    assert second.getMessage().startswith("took over 1 event of queue 'billing@orders'")
    assert second.job == id_of(event)


def test_a_loss_is_logged_once(records: Records) -> None:
    first, second = delivery("mail"), delivery("mail")
    report_lost([first])
    report_lost([first, second])
    report_lost([second])
    assert [record.jobs for record in records("WARNING", "lease lost: 1 job of queue 'mail'")] == [
        [id_of(first)],
        [id_of(second)],
    ]


def test_of_many_the_first_are_named(records: Records) -> None:
    many = [delivery("mail") for _ in range(150)]
    report_lost(many)
    (record,) = records("WARNING")
    assert record.getMessage().endswith(f"{id_of(many[4])} and 145 more")
    assert record.jobs == [id_of(one) for one in many[:5]]
    assert len(record.getMessage()) < 400
    assert record.count == 150
