"""What tasks and topics declare about their payloads, and how these are made smaller."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from headrace.core.bounds import MAX_PAYLOAD, check_count
from headrace.core.job.envelope import Envelope, Overrides, Packing
from headrace.core.payload.codecs import Codec, CodecName, codec_name
from headrace.core.payload.compression import (
    THRESHOLD,
    CannotDecompress,
    Compression,
    check_compression,
    compressor,
    decompressed,
)
from headrace.core.payload.offload import Offload, check_offload
from headrace.errors import HeadraceError, PayloadTooLarge


class PayloadOptions(msgspec.Struct, frozen=True):
    """The codec of payloads, and when they are compressed or kept outside of the store."""

    codec: CodecName | Codec = "msgpack"
    compress: Compression | None = None
    compress_threshold: int = THRESHOLD
    offload: Offload | None = None

    def changed(self, where: str, given: Mapping[str, Any]) -> PayloadOptions:
        """These with what `given` says otherwise, checked; None is what they say."""
        names = self.__struct_fields__
        said = {name: given[name] for name in names if given.get(name) is not None}
        if "compress" in said:
            check_compression(where, said["compress"])
        if "compress_threshold" in said:
            check_count(f"{where}compress_threshold", said["compress_threshold"], least=0)
        if "offload" in said:
            check_offload(where, said["offload"])
        return msgspec.structs.replace(self, **said) if said else self

    def packer(self, most: int) -> Packer | None:
        """What packs payloads, so that at most `most` bytes go into the store; None if they stay as
        they are."""
        if self.compress is None and self.offload is None:
            return None
        return Packer(self.compress, self.compress_threshold, self.offload, most)


PLAIN_PAYLOADS = PayloadOptions()


class Packer:
    """Compresses payloads that are worth it. What is kept outside of the store is packed last."""

    def __init__(
        self,
        compression: str | None,
        threshold: int,
        offload: Offload | None,
        most: int = MAX_PAYLOAD,
    ) -> None:
        self._compression = compression or ""
        self._compress: Callable[[bytes], bytes] | None = None
        if compression is not None:
            self._compress = compressor(compression)
        self._threshold = threshold
        self.offload = offload
        self.most = most

    def check_inside(self, task: str, payload: bytes) -> None:
        """`PayloadTooLarge` if a payload cannot be sent without its offload."""
        if len(payload) > self.most:
            raise PayloadTooLarge(task, len(payload), self.most)

    def packed(self, payload: bytes) -> tuple[bytes, Packing | None]:
        """The payload as it travels, and what was done with it."""
        if self._compress is None or len(payload) < self._threshold:
            return payload, None
        data = self._compress(payload)
        if len(data) >= len(payload):
            return payload, None
        return data, Packing(len(payload), self._compression)


def packed(
    payload: bytes, overrides: Overrides, packer: Packer | None, *, fed: bool
) -> tuple[bytes, Overrides]:
    """The payload and the overrides of an envelope as they travel. Arguments that the results of
    other jobs are put into, `fed` ones, are MessagePack as those are."""
    if fed and overrides.content:
        overrides = msgspec.structs.replace(overrides, content="")
    if packer is None:
        return payload, overrides
    data, packing = packer.packed(payload)
    return data, msgspec.structs.replace(overrides, packing=packing)


class TooLarge(HeadraceError):
    """The payload takes more bytes than its reader allows."""

    def __init__(self, size: int, most: int) -> None:
        super().__init__(f"its data takes {size:,} bytes, {most:,} are allowed")
        self.size = size


class IsOffloaded(HeadraceError):
    """The payload is not in the store."""

    def __init__(self, size: int) -> None:
        super().__init__(f"its data, {size:,} bytes, is kept outside of the store")


def unpacked(envelope: Envelope, most: int) -> Envelope:
    """The envelope with its payload as it was encoded. Raises `TooLarge` before it makes more than
    `most` bytes, `CannotDecompress`, `NotInstalled`, or `IsOffloaded`."""
    packing = envelope.overrides.packing
    if packing is None:
        return envelope
    if packing.offloaded:
        raise IsOffloaded(packing.size)
    return with_payload(envelope, unpack(envelope.payload, packing, most))


def unpack(data: bytes, packing: Packing | None, most: int) -> bytes:
    """A payload or a result as it was encoded; raises as `unpacked` does."""
    if packing is None:
        return data
    if not 0 <= packing.size <= most:
        raise TooLarge(packing.size, most)
    if packing.compression:
        return decompressed(packing.compression, data, packing.size)
    if len(data) != packing.size:
        raise CannotDecompress(
            f"the payload has {len(data):,} bytes, and should have {packing.size:,}"
        )
    return data


def with_payload(envelope: Envelope, payload: bytes) -> Envelope:
    """The envelope with this payload, as it was encoded."""
    overrides = msgspec.structs.replace(envelope.overrides, packing=None)
    return msgspec.structs.replace(envelope, payload=payload, overrides=overrides)


def size_of(envelope: Envelope) -> int:
    """How many bytes the payload takes as it was encoded, wherever it is."""
    packing = envelope.overrides.packing
    return len(envelope.payload) if packing is None else packing.size


def shown_content(envelope: Envelope) -> str:
    """How the payload is encoded and packed, for people."""
    overrides = envelope.overrides
    packing = overrides.packing
    parts = [codec_name(overrides.content) or overrides.content]
    if packing is not None:
        parts += [packing.compression] if packing.compression else []
        parts += ["offloaded"] if packing.offloaded else []
    return ", ".join(parts)
