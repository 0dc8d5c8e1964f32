"""Which of two declarations of a schedule is the newer one."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from headrace.core.schedule.cadence import Cadence
from headrace.core.schedule.declaration import (
    MOST_REPLACED,
    commanded,
    declared,
    is_outdated,
    mark_of,
    newest_mark,
)
from headrace.core.schedule.definition import Definition
from headrace.core.schedule.schedule import Record


def every(seconds: int) -> Definition:
    return Definition("task", "default", b"", Cadence(every_ms=1000 * seconds), declared=True)


def after(*seconds: int) -> Record:
    record = None
    for now_ms, each in enumerate(seconds):
        record = declared("beat", every(each), now_ms, record)
    assert record is not None
    return record


def test_a_declaration_that_is_new_replaces_the_one_before() -> None:
    record = after(1, 2)
    assert (record.definition, record.passed_ms) == (every(2), 1)
    assert is_outdated("beat", every(1), record)
    assert not is_outdated("beat", every(2), record)
    assert not is_outdated("beat", every(3), record)


def test_one_that_was_replaced_changes_nothing() -> None:
    record = after(1, 2).pause()
    assert declared("beat", every(1), 9, record) is record
    assert declared("beat", every(2), 9, record) is record
    assert declared("beat", every(3), 9, record).paused


def test_one_that_was_replaced_comes_back_if_nobody_declares_the_stored_one() -> None:
    record = after(1, 2)
    other = mark_of("beat", after(3).body)
    assert declared("beat", every(1), 9, record, other) is record
    back = declared("beat", every(1), 9, record, mark_of("beat", record.body))
    assert (back.definition, back.passed_ms) == (every(1), 9)
    assert is_outdated("beat", every(2), back)
    assert not is_outdated("beat", every(1), back)


def test_a_command_leaves_it_known_which_version_is_newer() -> None:
    command = msgspec.structs.replace(every(9), declared=False)
    record = commanded("beat", command, 7, after(1, 2))
    assert (record.definition, record.passed_ms) == (command, 7)
    assert commanded("beat", command, 8, record) is record
    assert newest_mark("beat", record) == mark_of("beat", after(2).body)
    assert is_outdated("beat", every(1), record)
    assert not is_outdated("beat", every(2), record)
    assert declared("beat", every(1), 9, record) is record
    again = declared("beat", every(2), 9, record)
    assert again == msgspec.structs.replace(after(1, 2), passed_ms=9)
    # The next command, or the old version once it is alone, goes over the command too.
    other = commanded("beat", msgspec.structs.replace(every(8), declared=False), 9, record)
    assert other.replaced == record.replaced
    back = declared("beat", every(1), 9, record, newest_mark("beat", record))
    assert (back.definition, is_outdated("beat", every(2), back)) == (every(1), True)


def test_a_command_that_no_declaration_was_before_gives_way_to_the_first() -> None:
    command = msgspec.structs.replace(every(9), declared=False)
    record = commanded("beat", command, 7, None)
    assert newest_mark("beat", record) == b""
    first = declared("beat", every(1), 8, record)
    assert (first.definition, first.replaced) == (every(1), ())


def test_one_that_cannot_be_read_counts_as_a_declaration() -> None:
    record = Record(1, b"?", 0)
    assert newest_mark("beat", record) == mark_of("beat", b"?")


@pytest.mark.parametrize("again", [declared, commanded])
def test_ticks_that_are_reserved_stay_so_when_it_is_replaced(again: Any) -> None:
    reserved, _ = after(1).reserve(1500)
    record = again("beat", every(3), 1600, again("beat", every(2), 1600, reserved))
    assert (record.definition, record.reserved, record.fired) == (every(3), (1000,), 0)
    assert record.reserved_definition == every(1)
    sent = record.failed("full")
    assert (sent.reserved, sent.reserved_by, sent.fired) == ((), b"", 0)
    assert sent.reserved_definition == every(3)


def test_a_record_remembers_the_last_ones() -> None:
    record = after(*range(1, 60))
    assert len(record.replaced) == MOST_REPLACED
    assert not is_outdated("beat", every(1), record)
    assert is_outdated("beat", every(58), record)


def test_declarations_of_other_names_are_others() -> None:
    assert mark_of("a", b"x") != mark_of("b", b"x")
