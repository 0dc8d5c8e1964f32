"""A task with its arguments, on the way to being a job."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from msgspec.structs import replace

from headrace import Headrace
from headrace.core.job import ids
from headrace.core.job.constraints import Constraints
from headrace.core.job.envelope import NO_OVERRIDES, Envelope, Feed, WireRetry, decode_envelope
from headrace.core.job.ids import JobId
from headrace.core.job.parcel import Child, FlowMembership, Parcel
from headrace.core.job.retry import Retry
from headrace.core.task.call import Call
from headrace.core.task.send_options import PLAIN

NOW = 1_800_000_000_000


def call(**options: Any) -> Call[int]:
    sending = PLAIN.changed(**options) if options else PLAIN
    return Call("add", "default", b"\x92\x01\x02", int, sending)


def opened(parcel: Parcel) -> Envelope:
    envelope = decode_envelope(parcel.envelope)
    assert envelope.job_id == parcel.job_id
    return envelope


def test_a_plain_call_becomes_a_job_that_is_due_at_once() -> None:
    parcel = call().parcel()
    envelope = opened(parcel)
    assert (envelope.task, envelope.payload) == ("add", b"\x92\x01\x02")
    assert envelope.overrides == NO_OVERRIDES
    assert (parcel.delay_ms, parcel.at_ms) == (None, None)


def test_each_parcel_is_a_job_of_its_own() -> None:
    one = call()
    assert len({one.parcel().job_id for _ in range(100)}) == 100


def test_a_chosen_id_is_the_same_in_each_parcel() -> None:
    named = call(id="order-17")
    assert named.parcel(NOW).job_id == named.parcel(NOW + 1).job_id == ids.to_id("order-17")


def test_a_chosen_id_carries_the_time_of_sending_beside_it() -> None:
    assert opened(call(id="order-17").parcel(NOW)).overrides.sent_ms == NOW
    assert opened(call(delay=1).parcel(NOW)).overrides.sent_ms is None


def test_a_queue_given_to_the_call_wins() -> None:
    assert call().queue == "default"
    assert call(queue="mail").queue == "mail"


def test_a_delay_is_left_to_the_clock_of_the_store() -> None:
    parcel = call(delay=1.5).parcel(NOW)
    assert (parcel.delay_ms, parcel.at_ms) == (1_500, None)


def test_a_moment_is_passed_on() -> None:
    parcel = call(at=datetime(2030, 6, 1, 12, tzinfo=UTC)).parcel(NOW)
    assert (parcel.delay_ms, parcel.at_ms) == (None, 1_906_545_600_000)


def test_only_an_expiry_in_so_many_seconds_needs_the_time_of_the_store() -> None:
    assert call(expires=60).needs_time
    assert not call(expires=datetime(2030, 6, 1, tzinfo=UTC)).needs_time
    assert not call(delay=5, id="x", timeout=3).needs_time
    assert not call().needs_time


def test_an_expiry_becomes_a_moment() -> None:
    assert opened(call(expires=60).parcel(NOW)).overrides.expires_ms == NOW + 60_000
    at_noon = call(expires=datetime(2030, 6, 1, 12, tzinfo=UTC))
    assert opened(at_noon.parcel(NOW)).overrides.expires_ms == 1_906_545_600_000


def test_what_a_call_overrides_is_in_its_envelope() -> None:
    parcel = call(
        id="order-17", expires=60, timeout=5, retry=Retry(9), headers={"tenant": "eu"}
    ).parcel(NOW)
    overrides = opened(parcel).overrides
    assert (overrides.timeout, overrides.headers) == (5, {"tenant": "eu"})
    assert overrides.retry == WireRetry.of(Retry(9))
    assert (overrides.expires_ms, overrides.sent_ms) == (NOW + 60_000, NOW)


def test_a_call_says_what_it_is() -> None:
    assert repr(call(queue="mail")) == "<Call of 'add' on 'mail'>"


def membership(feed: Feed = "", parents: tuple[JobId, ...] = ()) -> FlowMembership:
    return FlowMembership(b"k" * 16, b"f" * 16, feed, parents, (Child("mail", b"c" * 16),))


def test_a_job_of_a_flow_carries_the_key_of_the_flow_and_how_it_is_fed() -> None:
    parcel = call().parcel(NOW, membership("one", (b"p" * 16,)))
    envelope = opened(parcel)
    assert (envelope.job_id, envelope.overrides.flow) == (b"k" * 16, b"f" * 16)
    assert (envelope.overrides.feed, parcel.parents) == ("one", (b"p" * 16,))
    assert parcel.children == (Child("mail", b"c" * 16),)


def test_a_call_that_is_fed_sends_what_comes_after_the_first_argument() -> None:
    fed: Call[int] = Call("add", "default", b"\x92\x01\x02", int, payload_after_first=b"\x91\x02")
    assert opened(fed.parcel(NOW, membership("one"))).payload == b"\x91\x02"
    assert opened(fed.parcel(NOW, membership())).payload == b"\x92\x01\x02"


def test_of_a_job_that_waits_the_store_knows_how_long_to_keep_its_end() -> None:
    app = Headrace("memory://")
    plain = app.task(name="plain", result_ttl=5)(abs_of)
    forgotten = app.task(name="forgotten", result_ttl=0)(abs_of)
    waiting = membership(parents=(b"p" * 16,))
    counted = Constraints(flow="66666666-6666-6666-6666-666666666666")
    assert plain.call(1).parcel(NOW, waiting).constraints == replace(counted, ttl_ms=5_000)
    assert forgotten.call(1).parcel(NOW, waiting).constraints == counted
    assert plain.call(1).parcel(NOW, membership()).constraints == counted


def abs_of(number: int) -> int:
    return abs(number)


def test_headers_are_added_to_a_copy() -> None:
    one = call(headers={"a": "1"})
    other = one.with_headers({"b": "2"})
    assert opened(other.parcel(NOW)).overrides.headers == {"a": "1", "b": "2"}
    assert opened(one.parcel(NOW)).overrides.headers == {"a": "1"}
