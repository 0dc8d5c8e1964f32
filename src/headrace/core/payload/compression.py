"""Compression of payloads. What is compressed says so in its envelope, so every reader can read it,
whatever its own settings are."""

from __future__ import annotations

import importlib
import zlib
from collections.abc import Callable
from typing import Any, Literal, get_args

from headrace.errors import ConfigError, HeadraceError

Compression = Literal["zstd", "zlib"]
THRESHOLD = 1024
"""Payloads of fewer bytes are not compressed: it would gain little."""
_ZLIB_LEVEL = 6
_ZSTD_LEVEL = 3
_ZSTD_WINDOW = 1 << 23


class CannotDecompress(HeadraceError):
    """The bytes are not what their envelope says: damaged, or larger than it says."""


class NotInstalled(HeadraceError):
    """This program lacks a package that another has: after it is installed, the payload can be
    read."""


def compressor(name: str) -> Callable[[bytes], bytes]:
    """The function that compresses; `NotInstalled` if it needs a package that is not there."""
    return _COMPRESSORS[name]()


def decompressed(name: str, data: bytes, size: int) -> bytes:
    """The payload of `size` bytes that was compressed. Never makes more bytes than that."""
    read = _READERS.get(name)
    if read is None:
        raise NotInstalled(
            f"the payload is compressed as {name!r}, which this version cannot read: upgrade it"
        )
    try:
        found = read(data, size)
    except NotInstalled:
        raise
    except Exception as error:
        raise CannotDecompress(f"the payload is no {name}: {error}") from None
    if len(found) != size:
        raise CannotDecompress(f"the payload has other than the {size:,} bytes that it should have")
    return found


def check_compression(where: str, name: object) -> None:
    """`ConfigError` if payloads cannot be compressed so."""
    known = get_args(Compression)
    if name not in known:
        raise ConfigError(f"{where}compress must be {' or '.join(map(repr, known))}, not {name!r}")
    try:
        compressor(str(name))
    except NotInstalled as error:
        raise ConfigError(f"{where}{error}") from None


def _zlib_compressor() -> Callable[[bytes], bytes]:
    return lambda data: zlib.compress(data, _ZLIB_LEVEL)


def _from_zlib(data: bytes, size: int) -> bytes:
    reader = zlib.decompressobj()
    # One byte more than it should have shows whether there are more.
    return reader.decompress(data, size + 1)


def _zstd_compressor() -> Callable[[bytes], bytes]:
    make = _zstandard().ZstdCompressor

    def compress(data: bytes) -> bytes:
        # One for each: they must not be shared by threads.
        found: bytes = make(level=_ZSTD_LEVEL).compress(data)
        return found

    return compress


def _from_zstd(data: bytes, size: int) -> bytes:
    # A frame may ask for a window of gigabytes: no more is granted than the payload takes.
    window = max(_ZSTD_WINDOW, 1 << size.bit_length())
    reader = _zstandard().ZstdDecompressor(max_window_size=window)
    found: bytes = reader.stream_reader(data).read(size + 1)
    return found


def _zstandard() -> Any:
    try:
        return importlib.import_module("zstandard")
    except ImportError:
        raise NotInstalled(
            "compression by 'zstd' needs the zstandard package: pip install 'headrace[zstd]'"
        ) from None


_COMPRESSORS: dict[str, Callable[[], Callable[[bytes], bytes]]] = {
    "zlib": _zlib_compressor,
    "zstd": _zstd_compressor,
}
_READERS: dict[str, Callable[[bytes, int], bytes]] = {"zlib": _from_zlib, "zstd": _from_zstd}
