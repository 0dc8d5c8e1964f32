"""How ended jobs are kept: blocks, chunks, marks and pages, without a store."""

from __future__ import annotations

import pytest

from headrace.core.job import ids
from headrace.core.job.delivery import LeasedDelivery
from headrace.core.job.envelope import encode_envelope
from headrace.core.job.history_rules import HistoryBounds, HistoryRules
from headrace.core.job.ids import JobId
from headrace.core.job.outcome import DONE, Done, Retried
from headrace.core.job.state import State
from headrace.core.job.verdict import done_verdict
from headrace.errors import ConfigError
from headrace.store.contract import Settlement
from headrace.store.history.block import MARK, blocks_of, mark_of
from headrace.store.history.chunk import (
    decode_chunk,
    encode_frame,
    find_mark,
    find_marks,
    without,
)
from headrace.store.history.page import Shelf, page_of, positions_in

RULES = HistoryRules(HistoryBounds(100, 1000))


def settled(job_id: JobId, task: str = "work") -> Settlement:
    delivery = LeasedDelivery("default", b"1700-0", encode_envelope(job_id, task, b"\x90"))
    delivery.job_id, delivery.task, delivery.attempt = job_id, task, 1
    delivery.started_ms, delivery.took_us = 1800, 2_500
    return Settlement(delivery, DONE)


def chunk_of(*frames: list[JobId]) -> tuple[bytes, bytes]:
    marks, data = b"", b""
    for at, job_ids in enumerate(frames):
        (block,) = blocks_of(RULES, [settled(job_id) for job_id in job_ids], "wanda")
        marks += block.marks
        data += encode_frame(2000 + at, {0: b"progress"}, block.data)
    return marks, data


def test_jobs_of_a_chunk_come_back_in_their_order() -> None:
    first, second = [ids.new_id(), ids.to_id("by-name")], [ids.new_id()]
    marks, data = chunk_of(first, second)
    jobs = decode_chunk(data)
    assert [job.job_id for job in jobs] == [*first, *second]
    assert [job.ended_ms for job in jobs] == [2000, 2000, 2001]
    assert [job.progress for job in jobs] == [b"progress", b"", b"progress"]
    assert {(job.task, job.worker, job.ready_ms) for job in jobs} == {("work", "wanda", 1700)}
    assert {(job.started_ms, job.took_us, job.attempt) for job in jobs} == {(1800, 2_500, 1)}
    assert [find_mark(marks, job.job_id) for job in jobs] == [(at, State.DONE) for at in range(3)]


def test_a_job_is_not_found_between_two_marks() -> None:
    one, other = ids.new_id(), ids.new_id()
    marks, _ = chunk_of([one, other])
    between = marks[5:21]
    assert between in marks
    assert find_mark(marks, between) is None
    assert find_marks(marks, [between, *[ids.new_id() for _ in range(20)], other]) == [1]


def test_of_a_job_that_ended_twice_the_last_is_found() -> None:
    job_id = ids.new_id()
    marks, data = chunk_of([job_id, ids.new_id()], [job_id])
    assert find_mark(marks, job_id) == (2, State.DONE)
    left_marks, left = without(data, {job_id})
    assert find_mark(left_marks, job_id) is None
    jobs = decode_chunk(left)
    assert [bool(job.job_id) for job in jobs] == [False, True, False]
    assert jobs[1] == decode_chunk(data)[1]
    assert (job_id in left, len(left_marks)) == (False, 3 * MARK)
    page = page_of([Shelf("", 10_000, 1, 0, [(1, left)])], None, 10, 3000, print)
    assert page.jobs == jobs[1:2]


def test_only_done_jobs_of_tasks_that_are_kept_are_in_blocks() -> None:
    rules = HistoryRules(HistoryBounds(2, 1000))
    rules.set("never", None)
    rules.set("own", HistoryBounds(1, 500))
    many = [settled(ids.new_id(), task) for task in ("work", "never", "own", "work", "own", "work")]
    failed = settled(ids.new_id())
    blocks = blocks_of(rules, [*many, Settlement(failed.delivery, Retried(0, b""))], "wanda")
    kept = {each.shelf: len(each.marks) // MARK for each in blocks}
    assert kept == {"": 2, "own": 1}
    assert blocks_of(HistoryRules(), many, "wanda") == []


def test_what_is_too_large_is_left_out() -> None:
    job_id = ids.new_id()
    delivery = settled(job_id).delivery
    delivery.envelope = encode_envelope(job_id, "work", b"x" * 20_000)
    large = Done(done_verdict(b"y" * 20_000), 1000)
    (block,) = blocks_of(RULES, [Settlement(delivery, large)], "wanda")
    (job,) = decode_chunk(encode_frame(2000, {}, block.data))
    assert (job.envelope, job.verdict, job.task) == (b"", b"", "work")


def test_ids_of_any_length_have_marks_of_one_length() -> None:
    assert {len(mark_of(each)) for each in (b"=a", b"=" + b"x" * 256, ids.new_id())} == {16}


def test_bytes_that_are_no_chunk_are_passed_over_in_pages() -> None:
    _, data = chunk_of([ids.new_id()])
    odd: list[str] = []
    shelf = Shelf("", 10_000, 1, 0, [(3, data[:-1]), (2, b"\0\0\0\x01\xc1"), (1, data)])
    page = page_of([shelf], None, 10, 3000, odd.append)
    assert (len(page.jobs), page.cursor, len(odd)) == (1, "", 2)
    with pytest.raises(ConfigError, match="cursor"):
        positions_in("nonsense")
