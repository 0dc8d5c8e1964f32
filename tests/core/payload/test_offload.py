"""Where large payloads go: what can be declared, and what is refused."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from headrace.core.payload.offload import MAX_PAYLOAD, THRESHOLD, TIMEOUT, Offload, check_offload
from headrace.errors import ConfigError


def put(key: str, data: bytes) -> None: ...


async def get(key: str) -> bytes:
    return b""


def delete(key: str) -> None: ...


def test_an_offload_has_defaults_for_all_but_put_and_get() -> None:
    offload = Offload(put, get)
    assert (offload.put, offload.get, offload.delete) == (put, get, None)
    assert (offload.threshold, offload.max_payload) == (THRESHOLD, MAX_PAYLOAD)
    assert offload.timeout == TIMEOUT
    assert repr(offload) == "<Offload of 262,144 bytes and more>"


def test_an_offload_is_as_it_was_declared() -> None:
    given = timedelta(milliseconds=1500)
    offload = Offload(put, get, delete, threshold=10, max_payload=2000, timeout=given)
    assert offload.delete is delete
    assert (offload.threshold, offload.max_payload, offload.timeout) == (10, 2000, 1.5)


def test_functions_may_have_more_parameters_that_need_not_be_given() -> None:
    def keep(key: str, data: bytes, bucket: str = "payloads") -> str:
        return f"{bucket}/{key}"

    assert Offload(keep, {"a": b"1"}.__getitem__).put is keep


def test_a_function_without_a_signature_is_taken_as_it_is() -> None:
    # Python 3.11 cannot say how a dict's pop is called.
    kept: dict[str, bytes] = {}
    assert Offload(put, kept.__getitem__, kept.pop).delete == kept.pop


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"put": "s3"}, r"Offload\(put=\) must be a function, not 's3'"),
        ({"get": None}, r"Offload\(get=\) must be a function, not None"),
        ({"delete": 5}, r"Offload\(delete=\) must be a function, not 5"),
        ({"threshold": 100, "max_payload": 10}, "threshold is 100 bytes and max_payload 10, so"),
        ({"max_payload": 1000}, "threshold is 262,144 bytes and max_payload 1,000, so"),
        ({"put": get}, r"put is called as put\(key, data\)"),
        ({"get": put}, r"get is called as get\(key\)"),
        ({"delete": lambda: None}, r"delete is called as delete\(key\)"),
        ({"threshold": 0}, r"Offload\(threshold=\)"),
        ({"threshold": "1k"}, r"Offload\(threshold=\)"),
        ({"max_payload": -1}, r"Offload\(max_payload=\)"),
        ({"timeout": 0}, r"Offload\(timeout=\)"),
        ({"timeout": "soon"}, r"Offload\(timeout=\)"),
    ],
)
def test_what_makes_no_offload_is_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        Offload(**{"put": put, "get": get, **given})


def test_only_an_offload_is_one() -> None:
    check_offload("task 'add': ", Offload(put, get))
    with pytest.raises(ConfigError, match=r"task 'add': offload must be an Offload\(put, get\)"):
        check_offload("task 'add': ", (put, get))
