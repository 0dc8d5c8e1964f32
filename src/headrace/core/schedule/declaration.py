"""Which of two versions of a program declares a schedule: the one that came later.

Code has no date. So a record remembers what was replaced: a declaration that is among that is
older than the one that replaced it, however often its worker is started.
"""

from __future__ import annotations

import msgspec

from headrace.core.job.envelope import Malformed
from headrace.core.schedule.definition import Definition
from headrace.core.schedule.schedule import Record, arm, encode_definition

MARK = 8
"""How many bytes stand for a declaration."""
MOST_REPLACED = 20
"""How many declarations a record remembers."""


def mark_of(name: str, body: bytes) -> bytes:
    """What stands for a declaration of a schedule."""
    from hashlib import blake2b  # slow to import, and seldom needed where jobs are sent

    return blake2b(name.encode() + b"\0" + body, digest_size=MARK).digest()


def newest_mark(name: str, record: Record) -> bytes:
    """What stands for the newest declaration that a record knows: the stored one, or the one that a
    command has replaced; empty if nobody declared it."""
    if not _is_command(record):
        return mark_of(name, record.body)
    return record.replaced[-1] if record.replaced else b""


def is_outdated(name: str, definition: Definition, record: Record) -> bool:
    """Whether there is a newer declaration than this one: stored, or under a command."""
    mark = mark_of(name, encode_definition(definition))
    return mark in record.replaced and mark != newest_mark(name, record)


def declared(
    name: str,
    definition: Definition,
    now_ms: int,
    old: Record | None,
    unclaimed: bytes = b"",
) -> Record:
    """The record of a schedule that is declared, from now on. One that is the same, or newer, goes
    on as it was, unless it is `unclaimed`; one that is replaced begins again, but stays paused."""
    if old is None:
        return arm(definition, now_ms)
    body, newest = encode_definition(definition), newest_mark(name, old)
    if old.body == body or (is_outdated(name, definition, old) and newest != unclaimed):
        return old
    return _replacing(name, old, body, now_ms)


def commanded(name: str, definition: Definition, now_ms: int, old: Record | None) -> Record:
    """The record of a schedule that is made by a command, from now on. One that is the same goes on
    as it was. Which declaration is older than which stays known."""
    if old is None:
        return arm(definition, now_ms)
    body = encode_definition(definition)
    return old if old.body == body else _replacing(name, old, body, now_ms)


def _replacing(name: str, old: Record, body: bytes, now_ms: int) -> Record:
    over = newest_mark(name, old)
    marks = (*(each for each in old.replaced if each != over), over) if over else ()
    mark = mark_of(name, body)
    replaced = tuple(each for each in marks if each != mark)[-MOST_REPLACED:]
    return msgspec.structs.replace(old.begun_again(body, now_ms), replaced=replaced)


def _is_command(record: Record) -> bool:
    """Whether `upsert` made it."""
    try:
        return not record.definition.declared
    except Malformed:
        return False
