"""Payloads as they travel: what packs them, what a reader may unpack, what people are shown."""

from __future__ import annotations

import zlib

import pytest

from headrace.core.job.envelope import FORMAT, Envelope, Overrides, Packing
from headrace.core.payload.compression import CannotDecompress, Compression
from headrace.core.payload.offload import Offload
from headrace.core.payload.packing import (
    PLAIN_PAYLOADS,
    IsOffloaded,
    Packer,
    PayloadOptions,
    packed,
    shown_content,
    size_of,
    unpack,
    unpacked,
    with_payload,
)
from headrace.errors import PayloadTooLarge

TEXT = b"all work and no play " * 100
OFFLOAD = Offload(lambda key, data: None, lambda key: TEXT)


def enveloped(
    payload: bytes = TEXT, *, content: str = "", packing: Packing | None = None
) -> Envelope:
    overrides = Overrides(content=content, packing=packing, key="k")
    return Envelope(FORMAT, b"j", "add", payload, overrides)


def test_payloads_that_stay_as_they_are_need_no_packer() -> None:
    assert PLAIN_PAYLOADS.packer(100) is None
    assert PayloadOptions(codec="json", compress_threshold=5).packer(100) is None


def test_a_packer_compresses_from_the_threshold_that_was_declared() -> None:
    packer = PLAIN_PAYLOADS.changed("", {"compress": "zlib", "compress_threshold": 50}).packer(100)
    assert packer is not None
    assert (packer.offload, packer.most) == (None, 100)
    assert packer.packed(TEXT[:49]) == (TEXT[:49], None)
    assert packer.packed(TEXT[:50])[1] == Packing(50, "zlib")


def test_a_packer_for_an_offload_alone_leaves_the_bytes_alone() -> None:
    packer = PLAIN_PAYLOADS.changed("", {"offload": OFFLOAD}).packer(100)
    assert packer is not None
    assert packer.offload is OFFLOAD
    assert packer.packed(TEXT) == (TEXT, None)


def test_options_that_are_not_given_stay_as_they_were() -> None:
    options = PayloadOptions(codec="json", compress="zlib")
    assert options.changed("", {"codec": None, "compress": None}) is options
    changed = options.changed("", {"compress_threshold": 0, "retention": 5})
    assert changed == PayloadOptions(codec="json", compress="zlib", compress_threshold=0)


def test_without_its_offload_a_payload_must_fit_into_the_store() -> None:
    packer = Packer(None, 0, OFFLOAD, most=10)
    packer.check_inside("add", bytes(10))
    with pytest.raises(PayloadTooLarge, match=r"task 'add': .* 11 bytes, the limit is 10"):
        packer.check_inside("add", bytes(11))


def test_a_packed_payload_says_so_in_its_overrides() -> None:
    given = Overrides(content="application/json", key="k")
    data, overrides = packed(TEXT, given, Packer("zlib", 1, None), fed=False)
    assert zlib.decompress(data) == TEXT
    assert overrides == Overrides(
        content="application/json", key="k", packing=Packing(len(TEXT), "zlib")
    )


def test_without_a_packer_nothing_changes() -> None:
    given = Overrides(content="application/json")
    payload, overrides = packed(TEXT, given, None, fed=False)
    assert payload is TEXT
    assert overrides is given


@pytest.mark.parametrize("packer", [None, Packer("zlib", 1, None)], ids=["plain", "packed"])
def test_arguments_that_results_are_put_into_are_messagepack(packer: Packer | None) -> None:
    given = Overrides(content="application/json", key="k")
    _, overrides = packed(TEXT, given, packer, fed=True)
    assert (overrides.content, overrides.key) == ("", "k")
    assert (overrides.packing is None) is (packer is None)


def test_a_payload_that_is_elsewhere_is_not_taken_for_its_reference() -> None:
    envelope = enveloped(b"s3://bucket/1", packing=Packing(5_000_000, offloaded=True))
    with pytest.raises(IsOffloaded, match="5,000,000 bytes, is kept outside of the store"):
        unpacked(envelope, 10_000_000)


def test_what_was_not_packed_is_not_touched() -> None:
    assert unpack(TEXT, None, 1) is TEXT


def test_a_payload_that_came_back_from_elsewhere_has_the_size_that_it_should_have() -> None:
    packing = Packing(len(TEXT), offloaded=True)
    assert unpack(TEXT, packing, len(TEXT)) == TEXT
    with pytest.raises(CannotDecompress, match="has 2,099 bytes, and should have 2,100"):
        unpack(TEXT[1:], packing, len(TEXT))


def test_an_envelope_with_its_payload_keeps_all_else() -> None:
    envelope = with_payload(enveloped(b"ref", packing=Packing(3, offloaded=True)), TEXT)
    assert envelope == enveloped(TEXT)


def test_the_size_of_a_payload_is_that_before_it_was_packed() -> None:
    assert size_of(enveloped(b"12345")) == 5
    assert size_of(enveloped(b"12345", packing=Packing(900, "zlib"))) == 900
    assert size_of(enveloped(b"ref", packing=Packing(9_000_000, offloaded=True))) == 9_000_000


@pytest.mark.parametrize(
    ("content", "compression", "offloaded", "shown"),
    [
        ("", None, False, "msgpack"),
        ("application/json", None, False, "json"),
        ("text/csv", None, False, "text/csv"),
        ("", "zstd", False, "msgpack, zstd"),
        ("application/json", "zlib", True, "json, zlib, offloaded"),
        ("", None, True, "msgpack, offloaded"),
    ],
)
def test_people_are_shown_how_a_payload_is_encoded_and_packed(
    content: str, compression: Compression | None, offloaded: bool, shown: str
) -> None:
    is_packed = compression is not None or offloaded
    packing = Packing(9, compression or "", offloaded) if is_packed else None
    assert shown_content(enveloped(content=content, packing=packing)) == shown
