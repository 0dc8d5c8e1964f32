"""Records of workers: written, read back, and read from a version that nobody knows."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest

from headrace.core.breaker import Breaker
from headrace.core.scaling.scaler import Scaler
from headrace.core.scaling.scaling import Scaling
from headrace.core.workers import (
    KnownTasks,
    Scaled,
    StopRequest,
    SupervisorRecord,
    WorkerRecord,
    decode_record,
    decode_stop,
    decode_supervisor,
    encode_record,
)

RECORD = WorkerRecord("w-1", "host", 7, 1000, {"mail": 1}, 10, "0.1", "3.11", 2, 3000)


def test_a_record_is_read_back() -> None:
    assert decode_record(encode_record(RECORD)) == RECORD
    assert RECORD.started == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    assert RECORD.last_beat == datetime(1970, 1, 1, 0, 0, 3, tzinfo=UTC)


def test_a_supervisor_says_how_many_processes_it_runs() -> None:
    scaled = Scaled.of(Scaler(Scaling(1, 8)), Breaker(), count=3, slots=30)
    assert (scaled.count, scaled.least, scaled.most, scaled.slots) == (3, 1, 8, 30)
    record = SupervisorRecord("host", 7, scaled)
    assert decode_supervisor(encode_record(record)) == record


@pytest.mark.parametrize("odd", [b"", b"\xc1", b"\x91\x00", b"\x81\xa4name\xc0"])
def test_what_cannot_be_read_is_no_record_but_still_asks_for_a_stop(odd: bytes) -> None:
    assert decode_record(odd) is None
    assert decode_supervisor(odd) is None
    assert decode_stop(odd) == StopRequest()


def test_a_stop_is_read_back() -> None:
    assert decode_stop(encode_record(StopRequest(2.5))) == StopRequest(2.5)


def known(*names: str, mark: bytes = b"same") -> KnownTasks:
    return KnownTasks.of(dict.fromkeys(names, mark))


def test_two_programs_know_none_of_each_others_tasks() -> None:
    shop, bank = known("pay", "send", "ship", "zip"), known("book")
    assert shop.some == ("pay", "send", "ship")
    assert shop.has_none_of(bank)
    assert bank.has_none_of(shop)
    assert not shop.has_none_of(known("book", "zip"))
    # A worker that says nothing of its tasks, or has only subscriptions, may be of any program.
    assert not shop.has_none_of(KnownTasks())
    assert not KnownTasks().has_none_of(shop)
    record = msgspec.structs.replace(RECORD, tasks=shop)
    assert decode_record(encode_record(record)) == record


def test_a_worker_declares_a_task_otherwise_if_its_mark_is_another() -> None:
    tasks = KnownTasks.of({"send": b"2222", "pay": b"1111"})
    assert tasks.may_declare_otherwise("send", b"1111")
    assert not tasks.may_declare_otherwise("send", b"2222")
    assert not tasks.may_declare_otherwise("pay", b"1111")
    assert not tasks.may_declare_otherwise("zip", b"1111")


def test_a_worker_of_an_older_headrace_may_declare_what_it_knows_otherwise() -> None:
    class OlderTasks(msgspec.Struct, array_like=True):
        marks: bytes
        some: tuple[str, ...]

    now = KnownTasks.of({"send": b"1111"})
    older = msgspec.msgpack.encode(OlderTasks(now.marks, now.some))
    read = msgspec.msgpack.decode(older, type=KnownTasks)
    assert read.may_declare_otherwise("send", b"1111")
    assert not read.may_declare_otherwise("pay", b"1111")
    # And that one reads what is written now.
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(now), type=OlderTasks).some == ("send",)
