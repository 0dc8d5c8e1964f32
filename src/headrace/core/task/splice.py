"""One more item for an array that is encoded already: results travel on as the bytes they are."""

from __future__ import annotations

import struct

_SHORT = range(0x90, 0xA0)
_LONGER = {0xDC: struct.Struct(">H"), 0xDD: struct.Struct(">I")}


def with_first(data: bytes, first: bytes, at: int = 0) -> bytes | None:
    """`data` with one more item at the head of the MessagePack array that begins at `at`; None if
    there is none."""
    mark = data[at] if at < len(data) else 0
    if mark in _SHORT:
        count, after = mark - _SHORT.start, at + 1
    elif mark in _LONGER and len(data) > at + _LONGER[mark].size:
        form = _LONGER[mark]
        count, after = form.unpack_from(data, at + 1)[0], at + 1 + form.size
    else:
        return None
    return data[:at] + _header(count + 1) + first + data[after:]


def _header(count: int) -> bytes:
    if count < len(_SHORT):
        return bytes([_SHORT.start + count])
    mark = 0xDC if count <= 0xFFFF else 0xDD
    return bytes([mark]) + _LONGER[mark].pack(count)
