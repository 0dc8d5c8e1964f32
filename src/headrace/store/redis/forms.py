"""Between the contract's values and what scripts take and answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from headrace.core.call import Child, Parcel
from headrace.core.job import State, decode_verdict
from headrace.core.ties import NO_TIES, encode_ties
from headrace.store.contract import DeadJob, Sighting
from headrace.store.redis.keys import unsigned
from headrace.store.redis.link import Argument


def envelope_of(fields: Sequence[bytes]) -> bytes:
    """What a stream entry holds; of what is not ours all there is, so that it can be looked at."""
    return fields[1] if fields and fields[0] == b"j" else msgspec.msgpack.encode(fields or [])


def when(parcel: Parcel) -> str:
    if parcel.at_ms is not None:
        return f"@{parcel.at_ms}"
    return f"+{parcel.delay_ms}" if parcel.delay_ms else ""


def parts_of(parcel: Parcel) -> tuple[Argument, ...]:
    """What `enter.lua` takes for each job."""
    return (
        parcel.key,
        when(parcel),
        parcel.envelope,
        encode_ties(parcel.ties),
        b"".join(b"%d:%b" % (len(key), key) for key in parcel.parents),
        b"".join(map(child_record, parcel.children)),
        parcel.tick.schedule if parcel.tick else "",
        parcel.tick.at_ms if parcel.tick else "",
    )


def of_events(events: Sequence[Parcel]) -> tuple[int, list[Argument]]:
    """What `publish.lua` takes, and how many arguments for each event: the envelope alone if all
    are due at once, have no key and are found in their envelopes."""
    plain: list[Argument] = []
    for parcel in events:
        if parcel.ties is not NO_TIES or not parcel.envelope.startswith(parcel.key, 4):
            break
        if parcel.delay_ms is not None or parcel.at_ms is not None:
            break
        plain.append(parcel.envelope)
    else:
        return 1, plain
    full: list[Argument] = []
    for parcel in events:
        ties = b"" if parcel.ties is NO_TIES else encode_ties(parcel.ties)
        full += (parcel.envelope, when(parcel), ties, parcel.key)
    return 4, full


def child_record(child: Child) -> bytes:
    queue = child.queue.encode()
    lengths = len(queue), len(child.key), child.runs_anyway
    return b"%d,%d,%d:%b%b" % (*lengths, queue, child.key)


def cancelled(answer: bytes) -> State | None:
    if not answer:
        return None
    if answer in (b"cancelled", b"running", b"dead"):
        return State(answer.decode())
    return decode_verdict(answer).state


def sighting(sight: list[Any]) -> Sighting | None:
    state, due, worker, deliveries, reason, envelope, past, verdict, ties, progress = sight
    if not state:
        if not verdict:
            return None
        return Sighting(decode_verdict(verdict).state, verdict)
    now, moment = State(state.decode()), int(float(due)) or None
    return Sighting(
        now,
        verdict,
        None if now is State.DEAD else moment,
        unsigned(worker.decode()),
        deliveries,
        reason.decode(),
        envelope,
        past,
        ties,
        progress,
        moment if now is State.DEAD else None,
    )


def dead_job(entry_id: bytes, fields: list[bytes]) -> DeadJob:
    named = dict(zip(fields[::2], fields[1::2], strict=True))
    died_ms = int(entry_id.split(b"-")[0])
    reason, ties = named[b"r"].decode(), named.get(b"t", b"")
    return DeadJob(named[b"k"], died_ms, reason, named[b"j"], named[b"h"], ties)
