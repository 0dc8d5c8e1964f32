"""The envelope: a job on the wire.

The envelope is written once, by the sender, and never again: whatever moves the job passes the same
bytes on, so fields that a newer sender added survive older workers. What changes from run to run is
kept beside it, in the `History`.

Its format says where the task runs, as far as the sender knows: stores keep waiting jobs apart by
it, and find it in the second byte without reading anything else.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from headrace.core.bounds import MAX_LABEL_BYTES, MAX_TAGS
from headrace.core.job.capacity import Runner
from headrace.core.job.ids import JobId
from headrace.core.job.retry import Backoff, Retry, full_name
from headrace.errors import ConfigError, HeadraceError

FORMAT = 1
"""Of events, of jobs that run on the loop, and of those whose sender knows only their task's name.
Others differ in nothing but this number."""
FORMATS: dict[Runner, int] = {"loop": FORMAT, "thread": 2, "process": 3}
_RUNNERS: dict[int, Runner] = {number: runner for runner, number in FORMATS.items()}
_NEWEST = max(FORMATS.values())


class WireRetry(msgspec.Struct, array_like=True, frozen=True):
    """A `Retry` in the envelope: exception classes go by name."""

    max_attempts: int
    backoff: Backoff | tuple[float, ...]
    base: float
    cap: float
    jitter: bool
    on: tuple[str, ...]
    never: tuple[str, ...]

    @classmethod
    def of(cls, retry: Retry) -> WireRetry:
        """Raises `ConfigError` for a subclass of `Retry`: it would arrive without its methods."""
        if type(retry) is not Retry:
            kind = type(retry).__name__
            raise ConfigError(
                f"options(retry=): only what a Retry(...) is given travels with a call, and {kind} "
                f"is a class of its own: put it on the task, with retry={kind}(...) where it is "
                "declared"
            )
        on, never = (
            tuple(kind if isinstance(kind, str) else full_name(kind) for kind in kinds)
            for kinds in (retry.on, retry.never)
        )
        return cls(
            retry.max_attempts, retry.backoff, retry.base, retry.cap, retry.jitter, on, never
        )

    def policy(self) -> Retry:
        return Retry(
            self.max_attempts,
            backoff=self.backoff,
            base=self.base,
            cap=self.cap,
            jitter=self.jitter,
            on=self.on,
            never=self.never,
        )


class Packing(msgspec.Struct, array_like=True, frozen=True):
    """What was done with a payload after it was encoded."""

    size: int
    """How many bytes the encoded payload has."""
    compression: str = ""
    offloaded: bool = False
    """Whether the payload is a reference to it, outside of the store."""


Feed = Literal["", "one", "list"]


class Overrides(msgspec.Struct, frozen=True, omit_defaults=True, rename={
    "headers": "h", "timeout": "t", "retry": "r", "expires_ms": "x", "sent_ms": "s",
    "flow": "f", "feed": "i", "key": "k", "kind": "y", "source": "o", "correlation": "c",
    "content": "m", "version": "v", "end_queue": "q", "graph": "g", "tags": "l",
    "occurred_us": "w", "packing": "p", "on_timeout": "u", "max_defers": "d",
}):  # fmt: skip
    """What one call sets differently from its task, or one event from its topic; left out of the
    envelopes of most."""

    headers: dict[str, str] = {}
    timeout: float | None = None
    """Seconds; 0 for no limit; None for the task's own."""
    retry: WireRetry | None = None
    expires_ms: int | None = None
    sent_ms: int | None = None
    """Only where the id does not contain the time."""
    flow: JobId = b""
    """For a job in a flow: the id of the flow's last job. Its result is kept for the flow, even
    with `result_ttl=0`."""
    feed: Feed = ""
    """How the results of the jobs it waited for become its first argument."""
    key: str = ""
    """Key of an event: decides its shard, and its order in ordered groups."""
    kind: str = ""
    """The event's type, if it is not the one that its topic declares."""
    source: str = ""
    """Who published the event."""
    correlation: str = ""
    content: str = ""
    """The content type of the payload; empty for MessagePack."""
    version: int = 1
    """The version of the event's schema."""
    end_queue: str = ""
    """Of a job in a flow, the queue of the flow's last job; empty if it is its own."""
    graph: bytes = b""
    """What people are shown of the flow, as `core/flow/graph.py` has it; of most of its jobs,
    empty."""
    tags: tuple[str, ...] = ()
    """What its sender filed it under."""
    occurred_us: int | None = None
    """When that happened which the event is about, in microseconds since 1970; None if nobody said
    so, and it happened when it was published."""
    packing: Packing | None = None
    """How its payload was made smaller; None if it is as it was encoded."""
    on_timeout: str = ""
    """What its timeout means, as `OnTimeout` has it; empty for what the task says."""
    max_defers: int | None = None
    """How often it may be deferred; `NO_BOUND` for any number, None for the task's own."""


NO_BOUND = -1
NO_OVERRIDES = Overrides()


class Envelope(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A job on the wire. New fields go to the end, with a default."""

    format: int
    job_id: JobId
    task: str
    payload: bytes
    overrides: Overrides = NO_OVERRIDES

    @property
    def runner(self) -> Runner:
        """Where the sender expects it to run."""
        return _RUNNERS.get(self.format, "loop")


class NewerFormat(HeadraceError):
    """The envelope was written by a newer Headrace, in a format that this one cannot read."""


class Malformed(HeadraceError):
    """The bytes are not an envelope, or one that no sender may write."""


_encode = msgspec.msgpack.Encoder().encode
UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What msgspec raises over bytes that are not what they should be."""
_decode = msgspec.msgpack.Decoder(Envelope).decode


def encode_envelope(
    job_id: JobId,
    task: str,
    payload: bytes,
    overrides: Overrides = NO_OVERRIDES,
    runner: Runner = "loop",
) -> bytes:
    if overrides is NO_OVERRIDES:
        return _encode((FORMATS[runner], job_id, task, payload))
    return _encode(Envelope(FORMATS[runner], job_id, task, payload, overrides))


def runner_of(envelope: bytes) -> Runner:
    """The runner in an envelope; `loop` for bytes that name none. Decodes nothing."""
    return _RUNNERS.get(envelope[1], "loop") if len(envelope) > 1 else "loop"


def with_runner(envelope: bytes, runner: Runner) -> bytes:
    """The job for another runner; bytes that name none are left alone."""
    if len(envelope) < 2 or envelope[1] not in _RUNNERS:
        return envelope
    return envelope[:1] + bytes([FORMATS[runner]]) + envelope[2:]


def with_id(envelope: bytes, job_id: JobId) -> bytes:
    """The job under another id. The id is the second field; the rest is kept as it is."""
    start = 2
    own = _encode(_decode_id(_decode_head(envelope).job_id))
    return envelope[:start] + _encode(job_id) + envelope[start + len(own) :]


def decode_envelope(data: bytes) -> Envelope:
    """The envelope in `data`, or `NewerFormat` or `Malformed`."""
    try:
        envelope = _decode(data)
    except UNREADABLE as error:
        if (newer := _format_of(data)) and newer > _NEWEST:
            raise NewerFormat(_newer_text(newer)) from None
        raise Malformed(f"not a job envelope: {error}") from None
    if envelope.format not in _RUNNERS:
        if envelope.format > _NEWEST:
            raise NewerFormat(_newer_text(envelope.format))
        raise Malformed(f"envelope format {envelope.format} does not exist")
    overrides = envelope.overrides
    if overrides.retry is not None:
        _check_retry(overrides.retry)
    if overrides.tags:
        _check_tags(overrides.tags)
    return envelope


def is_newer(data: bytes) -> bool:
    """Whether `decode_envelope` would raise `NewerFormat`."""
    return (_format_of(data) or 0) > _NEWEST


def _check_retry(retry: WireRetry) -> None:
    try:
        retry.policy()
    except ConfigError as error:
        raise Malformed(f"not a job envelope: {error}") from None


def _check_tags(tags: tuple[str, ...]) -> None:
    """Refuse more than a sender may give: each is compared, listed and drawn."""
    if len(tags) > MAX_TAGS:
        raise Malformed(f"it has {len(tags):,} tags, at most {MAX_TAGS} are allowed")
    size = max(len(tag.encode()) for tag in tags)
    if size > MAX_LABEL_BYTES:
        raise Malformed(f"a tag of it takes {size:,} bytes, at most {MAX_LABEL_BYTES} are allowed")


class _Outline(msgspec.Struct, array_like=True):
    """The first fields of an envelope, not built; what follows is skipped."""

    format: msgspec.Raw
    job_id: msgspec.Raw
    task: msgspec.Raw
    payload: msgspec.Raw


_decode_outline = msgspec.msgpack.Decoder(_Outline).decode


def size_beside_payload(data: bytes) -> int:
    """How many bytes an envelope has beside its payload, found without building any of it: a few
    megabytes of tags would take seconds. All of them if it is no envelope."""
    try:
        return len(data) - len(_decode_outline(data).payload)
    except UNREADABLE:
        return len(data)


class _Head(msgspec.Struct, array_like=True):
    """The fields that stay first for ever; what follows is skipped, not built."""

    format: int
    job_id: msgspec.Raw = msgspec.Raw()


# Of MessagePack: bytes with their length in one or two bytes, and text.
_BIN8, _BIN16, _FIXSTR, _STR8, _STR16 = 0xC4, 0xC5, 0xA0, 0xD9, 0xDA
_decode_head = msgspec.msgpack.Decoder(_Head).decode
_decode_id = msgspec.msgpack.Decoder(bytes).decode


def peek_id(data: bytes) -> JobId:
    """The job's id in an envelope that cannot be decoded otherwise, for example one of a newer
    format or one that is too large; empty if there is none."""
    try:
        return _decode_id(_decode_head(data).job_id)
    except UNREADABLE:
        # Half an envelope may have it, where the lengths say.
        return data[4 : 4 + data[3]] if len(data) > 4 and data[2] == _BIN8 else b""


def id_and_task(envelope: bytes) -> tuple[bytes, bytes]:
    """The two fields of an envelope as they are encoded, and the task's name alone. Found by the
    lengths before them, without decoding, so that the first bytes of an envelope are enough. Both
    are empty if the bytes are no envelope of ours."""
    try:
        at = _end_of_id(envelope)
        first = envelope[at]
        if _FIXSTR <= first < _FIXSTR + 32:
            start, end = at + 1, at + 1 + first - _FIXSTR
        elif first == _STR8:
            start, end = at + 2, at + 2 + envelope[at + 1]
        elif first == _STR16:
            start, end = at + 3, at + 3 + int.from_bytes(envelope[at + 1 : at + 3], "big")
        else:
            return b"", b""
    except IndexError:
        return b"", b""
    return envelope[2:end], envelope[start:end]


def _end_of_id(envelope: bytes) -> int:
    kind = envelope[2]
    if kind == _BIN8:
        return 4 + envelope[3]
    if kind == _BIN16:
        return 5 + int.from_bytes(envelope[3:5], "big")
    return len(envelope)


def _format_of(data: bytes) -> int | None:
    """The format version of an envelope whose other fields cannot be read."""
    try:
        return _decode_head(data).format
    except UNREADABLE:
        return None


def _newer_text(version: int) -> str:
    return f"written in format {version}, this worker reads up to {_NEWEST}: upgrade the worker"
