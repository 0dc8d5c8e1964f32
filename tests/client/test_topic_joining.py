"""Publishers see to it that the groups they know exist, now and later."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from headrace import Headrace, Topic
from tests.servers import RedisServer

A_WHILE = 11.0

Pass = Callable[[float], None]


async def clocked(app: Headrace) -> Pass:
    """Lets time pass for what the app knows of groups."""
    session, now = await app.session(), [0.0]
    session.monotonic = lambda: now[0]

    def advance(seconds: float) -> None:
        now[0] += seconds

    return advance


def notes_of(app: Headrace, seen: asyncio.Queue[str], ordered: bool = False) -> Topic[str]:
    notes = app.topic("notes", str, key=lambda note: note)

    @notes.subscribe("audit", ordered=ordered)
    async def audit(note: str) -> None:
        seen.put_nowait(note)

    return notes


async def groups(app: Headrace) -> list[str]:
    return [group.name for group in (await app.store.groups(["@notes"]))["@notes"]]


@pytest.mark.parametrize("ordered", [False, True])
async def test_what_is_published_after_a_flushall_is_handled(
    redis_server: RedisServer, ordered: bool
) -> None:
    seen: asyncio.Queue[str] = asyncio.Queue()
    async with Headrace(redis_server.url) as app:
        notes, advance = notes_of(app, seen, ordered), await clocked(app)
        await notes.publish("lost")
        redis_server.ask("FLUSHALL")
        await notes.publish("before anyone noticed")
        advance(A_WHILE)
        await notes.publish("after")
        assert await groups(app) == ["audit"]
    async with Headrace(redis_server.url) as other:
        notes_of(other, seen, ordered)
        async with other.worker(), asyncio.timeout(20):
            found = [await seen.get(), await seen.get()]
    assert sorted(found) == ["after", "before anyone noticed"]


async def test_groups_are_looked_for_again_now_and_then_only(
    app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    joined: list[str] = []
    join = app.store.join

    async def count(queue: str, *rest: object) -> bool:
        joined.append(queue)
        return await join(queue, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(app.store, "join", count)
    notes, advance = notes_of(app, asyncio.Queue()), await clocked(app)
    for _ in range(5):
        await notes.publish("a note")
    assert joined == ["audit@notes"]
    advance(A_WHILE)
    await notes.publish("a note")
    await notes.publish("a note")
    assert joined == ["audit@notes"] * 2


async def test_a_group_that_was_removed_is_not_brought_back_by_who_knew_it(
    app: Headrace, store_url: str
) -> None:
    notes, advance = notes_of(app, asyncio.Queue()), await clocked(app)
    await notes.publish("a note")
    await app.admin.remove_group("notes", "audit")
    advance(A_WHILE)
    await notes.publish("a note")
    assert await groups(app) == []


@pytest.mark.parametrize("store_url", ["sqlite", "redis"], indirect=True)
async def test_a_group_that_was_removed_elsewhere_is_not_brought_back_either(
    app: Headrace, store_url: str
) -> None:
    notes, advance = notes_of(app, asyncio.Queue()), await clocked(app)
    await notes.publish("a note")
    async with Headrace(store_url, namespace=app.namespace) as other:
        await other.admin.remove_group("notes", "audit")
    advance(A_WHILE)
    await notes.publish("a note")
    assert await groups(app) == []
