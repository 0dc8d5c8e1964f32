"""Compressed payloads: what is declared, what travels, and what damaged ones may do."""

from __future__ import annotations

import os
import sys
import zlib

import pytest

from headrace.core.job.envelope import Overrides, Packing, decode_envelope, encode_envelope
from headrace.core.payload.compression import (
    CannotDecompress,
    Compression,
    NotInstalled,
    compressor,
    decompressed,
)
from headrace.core.payload.packing import PLAIN_PAYLOADS, Packer, TooLarge, unpack, unpacked
from headrace.errors import ConfigError

TEXT = b"all work and no play " * 1000
KINDS: list[Compression] = ["zstd", "zlib"]


@pytest.mark.parametrize("name", KINDS)
def test_a_payload_is_the_same_after_its_way(name: Compression) -> None:
    packer = Packer(name, 100, None)
    data, packing = packer.packed(TEXT)
    assert len(data) < len(TEXT) / 10
    assert packing == Packing(len(TEXT), name)
    assert unpack(data, packing, len(TEXT)) == TEXT


@pytest.mark.parametrize("name", KINDS)
def test_what_would_not_be_smaller_travels_as_it_is(name: Compression) -> None:
    packer = Packer(name, 100, None)
    for payload in (TEXT[:99], os.urandom(1000), b""):
        assert packer.packed(payload) == (payload, None)


@pytest.mark.parametrize("name", KINDS)
def test_a_bomb_is_refused_before_it_is_read(name: Compression) -> None:
    bomb = compressor(name)(bytes(50_000_000))
    with pytest.raises(TooLarge, match="50,000,000 bytes, 4,096 are allowed"):
        unpack(bomb, Packing(50_000_000, name), 4096)
    with pytest.raises(CannotDecompress, match="other than the 4,096 bytes"):
        unpack(bomb, Packing(4096, name), 4096)


@pytest.mark.parametrize("name", KINDS)
def test_damaged_bytes_are_no_payload(name: Compression) -> None:
    good = compressor(name)(TEXT)
    for bad in (b"", b"\x00", good[:-20], good[:5] + b"\xff" * 5 + good[10:], TEXT):
        with pytest.raises(CannotDecompress):
            decompressed(name, bad, len(TEXT))
    with pytest.raises(TooLarge):
        unpack(good, Packing(-1, name), 100)


def test_an_envelope_says_how_its_payload_was_packed() -> None:
    overrides = Overrides(packing=Packing(len(TEXT), "zlib"))
    envelope = decode_envelope(encode_envelope(b"j", "add", zlib.compress(TEXT), overrides))
    plain = unpacked(envelope, len(TEXT))
    assert (plain.payload, plain.overrides.packing) == (TEXT, None)
    assert unpacked(plain, 1) is plain


def test_zstd_without_its_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    data = compressor("zstd")(TEXT)
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(ConfigError, match=r"task 'add': .* install .headrace\[zstd\]"):
        PLAIN_PAYLOADS.changed("task 'add': ", {"compress": "zstd"})
    with pytest.raises(NotInstalled, match=r"install .headrace\[zstd\]"):
        decompressed("zstd", data, len(TEXT))


def test_a_compression_of_the_future_can_be_read_later() -> None:
    with pytest.raises(NotInstalled, match="'brotli', which this version cannot read: upgrade"):
        decompressed("brotli", b"", 1)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"compress": "lzma"}, "compress must be 'zstd' or 'zlib', not 'lzma'"),
        ({"compress_threshold": -1}, "compress_threshold must be"),
        ({"compress_threshold": "1k"}, "compress_threshold must be"),
        ({"offload": print}, r"offload must be an Offload\(put, get\)"),
    ],
)
def test_what_cannot_be_is_refused_when_it_is_declared(given: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        PLAIN_PAYLOADS.changed("", given)
