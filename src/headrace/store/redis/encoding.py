"""The contract's values, as arguments of scripts and from their replies."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import msgspec

from headrace.core.job.constraints import (
    NO_CONSTRAINTS,
    decode_constraints,
    encode_constraints,
)
from headrace.core.job.envelope import Malformed
from headrace.core.job.parcel import Child, Parcel
from headrace.core.job.state import State
from headrace.core.job.verdict import decode_verdict
from headrace.store.contract import UNREADABLE, DeadJob, JobSnapshot, ended_snapshot
from headrace.store.deaths import Deaths
from headrace.store.flow_values import decode_cause
from headrace.store.oddities import readable
from headrace.store.redis.connection.link import Argument
from headrace.store.redis.keys import unsigned
from headrace.store.values import EndedJob, Gathered


def envelope_of(fields: Sequence[bytes]) -> bytes:
    """The envelope in a stream entry; all fields, if the entry is not ours."""
    return fields[1] if fields and fields[0] == b"j" else msgspec.msgpack.encode(fields or [])


def deaths_in(queue: str, reply: Sequence[Any]) -> list[Deaths]:
    """The jobs of the queue that a script says it made dead."""
    return [
        Deaths(queue, readable(reason), readable(task), why, job_id, count)
        for reason, task, why, job_id, count in zip(*(reply[at::5] for at in range(5)), strict=True)
    ]


def when(parcel: Parcel) -> str:
    if parcel.at_ms is not None:
        return f"@{parcel.at_ms}"
    return f"+{parcel.delay_ms}" if parcel.delay_ms else ""


def parts_of(parcel: Parcel) -> tuple[Argument, ...]:
    """The arguments of `append_constrained.lua` for each job."""
    return (
        parcel.job_id,
        when(parcel),
        parcel.envelope,
        encode_constraints(parcel.constraints),
        b"".join(b"%d:%b" % (len(parent), parent) for parent in parcel.parents),
        b"".join(map(child_record, parcel.children)),
        parcel.tick.schedule if parcel.tick else "",
        parcel.tick.at_ms if parcel.tick else "",
        parcel.history,
    )


def of_events(events: Sequence[Parcel]) -> tuple[int, list[Argument]]:
    """How many arguments `publish.lua` gets for each event, and the arguments. It is the envelope
    alone if all events are due now, have no constraints, and have their ids in their envelopes."""
    plain: list[Argument] = []
    for parcel in events:
        if parcel.constraints is not NO_CONSTRAINTS or not parcel.envelope.startswith(
            parcel.job_id, 4
        ):
            break
        if parcel.delay_ms is not None or parcel.at_ms is not None:
            break
        plain.append(parcel.envelope)
    else:
        return 1, plain
    full: list[Argument] = []
    for parcel in events:
        constraints = (
            b"" if parcel.constraints is NO_CONSTRAINTS else encode_constraints(parcel.constraints)
        )
        full += (parcel.envelope, when(parcel), constraints, parcel.job_id)
    return 4, full


def child_record(child: Child) -> bytes:
    queue = child.queue.encode()
    lengths = len(queue), len(child.job_id), child.runs_anyway
    return b"%d,%d,%d:%b%b" % (*lengths, queue, child.job_id)


_CHILD = re.compile(rb"(\d+),(\d+),(\d):")


def children_in(records: bytes) -> list[Child]:
    """The children in the records of a job, as `child_record` writes them. Those of a job that it
    stands for are not among them."""
    found: list[Child] = []
    prefix = re.match(rb"\d+!", records)
    at = prefix.end() if prefix else 0
    while (head := _CHILD.match(records, at)) is not None:
        split = head.end() + int(head[1])
        at = split + int(head[2])
        if split > head.end():
            queue = readable(records[head.end() : split])
            found.append(Child(queue, records[split:at], head[3] == b"1"))
    return found


def cancelled(answer: bytes) -> State | None:
    if not answer:
        return None
    if answer in (b"cancelled", b"running", b"dead", b"done"):
        return State(answer.decode())
    try:
        return decode_verdict(answer).state
    except Malformed:
        return None


def snapshot(reply: list[Any], job: EndedJob | None = None) -> JobSnapshot | None:
    """The reply of `get.lua` for one job, which may be in the history; raises `Malformed` if all
    there is is an unreadable verdict."""
    state, due, worker, deliveries, reason, envelope, history, verdict, constraints = reply[:9]
    progress, cause, ended, inputs, gathered = reply[9:]
    if not state:
        if job is not None:
            return ended_snapshot(job, verdict)
        if not verdict:
            return JobSnapshot(State(ended[0].decode())) if ended else None
        return JobSnapshot(decode_verdict(verdict).state, verdict)
    now, moment = State(state.decode()), _moment(due)
    return JobSnapshot(
        now,
        verdict,
        None if now is State.DEAD else moment,
        unsigned(readable(worker)),
        deliveries,
        reason_in(reason) if now is State.DEAD else readable(reason),
        envelope,
        history,
        constraints,
        progress,
        moment if now is State.DEAD else None,
        decode_cause(cause),
        inputs,
        gathered=Gathered(*gathered) if gathered else None,
    )


def _moment(due: bytes) -> int | None:
    seconds = float(due)
    return int(seconds) or None if math.isfinite(seconds) else None


def dead_job(entry_id: bytes, fields: list[bytes], place: bytes | None) -> DeadJob:
    """A dead job from its entry, whatever that holds. `place` is the job's place in the index: if
    it is not this entry, the job gets the id of the entry, so that it can be purged."""
    named = dict(zip(fields[::2], fields[1::2], strict=True))
    died_ms = int(entry_id.split(b"-")[0])
    own = id_of(fields)
    job_id = own if own and place == b"d" + entry_id else b"=dead-" + entry_id
    envelope = named[b"j"] if b"j" in named else msgspec.msgpack.encode(fields)
    history, constraints = named.get(b"h", b""), named.get(b"t", b"")
    reason, cursor = reason_in(named.get(b"r", b"")), entry_id.decode()
    return DeadJob(job_id, died_ms, reason, envelope, history, constraints, cursor)


def reason_in(raw: bytes) -> str:
    try:
        return raw.decode() or UNREADABLE
    except UnicodeDecodeError:
        return UNREADABLE


def id_of(fields: Sequence[bytes]) -> bytes:
    """The job id in an entry of dead jobs; empty if it has none."""
    return fields[1] if fields[0] == b"k" else b""


def is_move(fields: Sequence[bytes]) -> bool:
    """Whether a message takes a job to another queue, rather than an ending."""
    return b"w" in fields[::2]


def moved_job(fields: Sequence[bytes]) -> tuple[str, Parcel]:
    """The job in a message, and where it goes; `KeyError` or `ValueError` if it cannot be read."""
    named = dict(zip(fields[::2], fields[1::2], strict=True))
    when = named[b"w"].decode()
    moved = Parcel(
        named[b"k"],
        named[b"j"],
        delay_ms=int(when[1:]) if when.startswith("+") else None,
        at_ms=int(when[1:]) if when.startswith("@") else None,
        constraints=decode_constraints(named[b"t"]),
        history=named[b"h"],
    )
    return named[b"q"].decode(), moved
