"""Options of a publish, and the envelopes that come of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headrace import ConfigError
from headrace.core.job import ids
from headrace.core.job.envelope import Overrides, decode_envelope, encode_envelope
from headrace.core.topic.publish_options import NO_OPTIONS, EnvelopeTemplate, publish_options

FULL = Overrides(
    headers={"tenant": "eu"},
    expires_ms=5,
    sent_ms=6,
    kind="Paid",
    source="shop",
    correlation="c-1",
    content="application/json",
    version=3,
)


@pytest.mark.parametrize("overrides", [Overrides(), Overrides(source="shop"), FULL])
@pytest.mark.parametrize("key", ["", "o-1", "鍵" * 80])
@pytest.mark.parametrize("id", [bytes(range(16)), ids.to_id("order-5"), ids.to_id("x" * 256)])
@pytest.mark.parametrize("payload", [b"", b"x" * 300, b"x" * 70_000])
def test_a_template_writes_what_encode_envelope_would(
    overrides: Overrides, key: str, id: bytes, payload: bytes
) -> None:
    envelope = decode_envelope(EnvelopeTemplate("@orders", overrides).envelope(id, payload, key))
    wanted = {name: getattr(overrides, name) for name in overrides.__struct_fields__}
    usual = encode_envelope(id, "@orders", payload, Overrides(**{**wanted, "key": key}))
    assert envelope == decode_envelope(usual)


def test_a_plain_event_is_no_longer_than_a_plain_job() -> None:
    job_id = ids.new_id()
    written = EnvelopeTemplate("@orders", Overrides()).envelope(job_id, b"x", "")
    assert written == encode_envelope(job_id, "@orders", b"x")


def test_options_that_are_none_are_not_given() -> None:
    names = ["key", "headers", "id", "delay", "at", "expires", "type", "source", "correlation_id"]
    assert publish_options(dict.fromkeys(names)) is NO_OPTIONS
    assert publish_options({}) is NO_OPTIONS


def test_durations_are_rounded_up_and_moments_are_by_the_epoch() -> None:
    moment = datetime(2030, 1, 1, tzinfo=UTC)
    options = publish_options({"delay": 0.0001, "expires": timedelta(minutes=1)})
    assert (options.delay_ms, options.expires_in_ms, options.needs_time) == (1, 60_000, True)
    options = publish_options({"at": moment, "expires": moment})
    assert options.at_ms == options.overrides.expires_ms == int(moment.timestamp() * 1000)
    assert not options.needs_time


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"delay": 1, "at": datetime(2030, 1, 1, tzinfo=UTC)}, "not both"),
        ({"delay": -1}, "delay"),
        ({"at": datetime(2030, 1, 1)}, "time zone"),
        ({"expires": datetime(2030, 1, 1)}, "time zone"),
        ({"occurred_at": datetime(2030, 1, 1)}, "occurred_at.*time zone"),
        ({"occurred_at": 5}, "occurred_at.*time zone"),
        ({"id": ""}, "id"),
        ({"id": 5}, "id"),
        ({"key": ""}, "key"),
        ({"key": 7}, "key"),
        ({"type": "x" * 257}, "type"),
        ({"source": "a\nb"}, "source"),
        ({"correlation_id": ""}, "correlation_id"),
        ({"headers": {"a": "x" * 8000, "b": "x" * 8000}, "colour": "red"}, "no 'colour'"),
    ],
)
def test_a_publish_refuses(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        publish_options(options)


def test_headers_that_are_too_much_together_are_refused() -> None:
    with pytest.raises(ConfigError, match="at most"):
        EnvelopeTemplate("@orders", Overrides(headers={f"h{n}": "x" * 8000 for n in range(5)}))


def test_keys_of_a_batch_are_ids_of_now_in_order_and_all_different() -> None:
    before = datetime.now(UTC).timestamp() * 1000
    made = ids.new_ids()
    keys = [next(made) for _ in range(10_000)]
    assert keys == sorted(set(keys))
    moments = [ids.created_ms(key) or 0 for key in keys]
    assert before - 1 <= moments[0] <= moments[-1] <= before + 2_000
    assert all(ids.to_id(ids.to_text(key)) == key for key in keys[:100])
