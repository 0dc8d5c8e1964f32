"""A job as a worker holds it."""

from __future__ import annotations

from headrace.core.job import ids
from headrace.core.job.delivery import LeasedDelivery
from headrace.core.job.envelope import encode_envelope


def test_it_is_named_by_its_id_or_by_where_it_lies() -> None:
    job_id = ids.new_id()
    delivery = LeasedDelivery("mail", "5-1", encode_envelope(job_id, "send", b"\x90"), b"h", 3)
    assert delivery.id_text == "(entry '5-1')"
    delivery.identify()
    assert delivery.id_text == ids.to_text(job_id)
    assert repr(delivery) == "LeasedDelivery('mail', '5-1', count=3)"


def test_logs_say_what_is_known_of_it() -> None:
    delivery = LeasedDelivery("mail", "5-1", b"")
    assert delivery.fields == {"job": "(entry '5-1')", "queue": "mail"}
    delivery.task, delivery.attempt = "send", 2
    assert delivery.fields["task"] == "send"
    assert delivery.fields["attempt"] == 2


def test_a_start_that_is_recorded_is_not_written_again() -> None:
    delivery = LeasedDelivery("mail", "5-1", b"")
    delivery.started_ms = 1000
    delivery.mark_start_recorded()
    assert (delivery.started_ms, delivery.recorded_ms) == (0, 1000)
