"""Facts of many jobs as one value."""

from __future__ import annotations

import msgspec
import pytest

from headrace.core.job.delivery import LeasedDelivery
from headrace.core.job.ids import new_id
from headrace.core.job.outcome import DONE, Dead, Done, Outcome, Retried
from headrace.core.job.tally import SettledColumns
from headrace.store.contract import Settlement
from headrace.store.fact_block import decode_facts, encode_block, encode_sent, encode_settled
from headrace.store.values import Fact

STARTED = 1_700_000_000_000


Ran = tuple[str, int, int, int]
NOT_RUN: Ran = "", 0, 0, 0


def settled(outcome: Outcome = DONE, job_id: bytes = b"", ran: Ran = NOT_RUN) -> Settlement:
    delivery = LeasedDelivery("q", 0, b"")
    delivery.job_id = job_id
    delivery.task, delivery.attempt, delivery.started_ms, delivery.took_us = ran
    return Settlement(delivery, outcome)


def encoded(*many: Settlement) -> bytes:
    return encode_settled(SettledColumns(many))


def listed(*values: bytes) -> bytes:
    return msgspec.msgpack.encode([msgspec.Raw(value) for value in values])


def test_a_batch_of_alike_runs_is_read_as_it_was_written() -> None:
    ids = [new_id() for _ in range(100)]
    block = encoded(
        *(settled(job_id=id, ran=("add", 1, STARTED + at // 7, at)) for at, id in enumerate(ids))
    )
    assert decode_facts(listed(block)) == [
        Fact("done", id, "add", 1, STARTED + at // 7, at) for at, id in enumerate(ids)
    ]
    assert len(block) < 100 * 19


def test_runs_that_have_nothing_in_common_are_read_as_they_were_written() -> None:
    block = encoded(
        settled(Retried(700, b""), b"=short", ("a", 2, 9, 1)),
        settled(Dead("boom", b""), b"=somewhat longer", ("b", 0, 0, 0)),
        settled(Done(b"verdict", 5), b"=x", ("a", 1, 3, 4)),
    )
    assert decode_facts(listed(block)) == [
        Fact("retry", b"=short", "a", 2, 9, 1, "700"),
        Fact("dead", b"=somewhat longer", "b", 0, 0, 0, "boom"),
        Fact("done", b"=x", "a", 1, 3, 4),
    ]


def test_jobs_without_an_id_are_facts_too() -> None:
    dead = Dead("malformed", b"")
    for count in (1, 2):
        facts = decode_facts(listed(encoded(*[settled(dead)] * count)))
        assert facts == [Fact("dead", b"", detail="malformed")] * count


def test_a_reason_that_cannot_be_written_is_written_with_a_question_mark() -> None:
    (fact,) = decode_facts(listed(encoded(settled(Dead("\ud800", b""), b"=a"))))
    assert fact.detail == "?"


def test_single_facts_and_blocks_keep_their_order() -> None:
    block = encode_sent([b"=a", b"=b"], ["sent", "scheduled"], ["t", "t"])
    single = msgspec.msgpack.encode(Fact("ready", b"=c", "t"))
    assert decode_facts(listed(single, block, single)) == [
        Fact("ready", b"=c", "t"),
        Fact("sent", b"=a", "t"),
        Fact("scheduled", b"=b", "t"),
        Fact("ready", b"=c", "t"),
    ]


@pytest.mark.parametrize(
    "value",
    [
        encode_block([b"=a", b"=b"], ["sent"], "t", 0, 0, 0, ""),
        encode_block([b"=a"], "sent", ["t", "t"], 0, 0, 0, ""),
        encode_block([b"=a"], "sent", "t", 0, [], 0, ""),
        encode_block([b"=a"], "flown", "t", 0, 0, 0, ""),
        msgspec.msgpack.encode([5, b"four", "sent", "t", 0, 0, 0, ""]),
        msgspec.msgpack.encode([[2, -1, 3], b"four", "sent", "t", 0, 0, 0, ""]),
        msgspec.msgpack.encode([[2**62, 1], b"four", "sent", "t", 0, 0, 0, ""]),
        b"\x98",
    ],
)
def test_a_block_that_is_not_ours_is_refused(value: bytes) -> None:
    with pytest.raises((ValueError, msgspec.MsgspecError)):
        decode_facts(b"\x91" + value)
