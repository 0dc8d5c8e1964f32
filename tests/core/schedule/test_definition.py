"""What a schedule sends: the same job by its definition and by a call for middleware."""

from __future__ import annotations

import msgspec
import pytest

from headrace.core.job.constraints import Constraints
from headrace.core.job.envelope import decode_envelope
from headrace.core.payload.offload import Offload
from headrace.core.payload.packing import Packer
from headrace.core.schedule.definition import Definition, Times, define
from headrace.core.task.call import Call
from headrace.errors import ConfigError, PayloadTooLarge
from tests.core.schedule.test_schedule import HOUR, NOON, call, defined, moment

OFFLOAD = Offload(lambda key, data: None, lambda key: b"")


def with_packer(payload: bytes, packer: Packer) -> Call[None]:
    return Call("report", "default", payload, None, packer=packer)


def constrained() -> Definition:
    sent = call(expires=60, timeout=5, headers={"tenant": "eu"}, queue="slow", delay=2)
    definition = define("nightly", sent, Times(every=1))
    return msgspec.structs.replace(definition, constraints=Constraints(priority=70))


def test_a_call_of_a_schedule_makes_the_job_of_its_definition() -> None:
    definition = constrained()
    scheduled = definition.call(int, "thread")
    parcel = scheduled.parcel(NOON)
    direct = definition.parcel(parcel.job_id, NOON, runner="thread")
    mine, other = decode_envelope(parcel.envelope), decode_envelope(direct.envelope)
    assert (mine.task, mine.payload, mine.runner) == (other.task, other.payload, "thread")
    assert mine.overrides.expires_ms == other.overrides.expires_ms == NOON + 60_000
    assert mine.overrides.headers == other.overrides.headers == {"tenant": "eu"}
    assert parcel.delay_ms == direct.delay_ms == 2000
    assert parcel.constraints == direct.constraints == Constraints(priority=70)
    assert (scheduled.queue, scheduled.returns) == ("slow", int)


def test_a_call_of_a_schedule_keeps_its_constraints_when_middleware_changes_it() -> None:
    changed = constrained().call().with_headers({"trace": "t-1"})
    parcel = changed.parcel(NOON)
    assert parcel.constraints == Constraints(priority=70)
    headers = decode_envelope(parcel.envelope).overrides.headers
    assert headers == {"tenant": "eu", "trace": "t-1"}


@pytest.mark.parametrize(
    ("after_hours", "until_hours", "expected"),
    [
        (0, 9, [3, 4, 5]),
        (3, 4, [4]),
        (0, 2, []),
        (5, 9, []),
        (4, 4, []),
        (4, 3, []),
    ],
)
def test_ticks_between_two_moments_are_within_start_and_end(
    after_hours: int, until_hours: int, expected: list[int]
) -> None:
    definition = defined(start=moment(NOON + 3 * HOUR), end=moment(NOON + 5 * HOUR))
    ticks = definition.between(NOON + after_hours * HOUR, NOON + until_hours * HOUR, 10)
    assert ticks == ([NOON + hours * HOUR for hours in expected], False)


def test_of_many_ticks_between_two_moments_the_latest_are_found() -> None:
    assert defined().between(NOON, NOON + 5 * HOUR, 2) == ([NOON + 4 * HOUR, NOON + 5 * HOUR], True)


@pytest.mark.parametrize("confirm", ["replicated", "disk"])
def test_a_call_that_asks_for_confirmation_is_refused(confirm: str) -> None:
    with pytest.raises(ConfigError, match=r"'hourly'.*confirm="):
        define("hourly", call(confirm=confirm), Times(every=5))


def test_arguments_that_only_fit_outside_of_the_store_are_refused() -> None:
    packer = Packer(None, 0, OFFLOAD, most=10)
    define("hourly", with_packer(bytes(10), packer), Times(every=5))
    with pytest.raises(PayloadTooLarge, match=r"'report'.* 11 bytes, the limit is 10"):
        define("hourly", with_packer(bytes(11), packer), Times(every=5))


def test_a_schedule_keeps_its_arguments_as_they_were_encoded() -> None:
    payload = b"\x91\xda\x07\xd0" + b"x" * 2000
    definition = define("hourly", with_packer(payload, Packer("zlib", 10, None)), Times(every=5))
    assert definition.payload == payload
    assert definition.overrides.packing is None
