"""Small values under a name."""

from __future__ import annotations

import asyncio

from headrace.store.contract import Store
from headrace.testing.conformance.ground import Ground

SPACE = "schedules"


class NotesConformance(Ground):
    async def test_a_note_is_kept(self, store: Store) -> None:
        assert await store.notes(SPACE) == {}
        everything = bytes(range(256))
        assert await store.note(SPACE, "nightly ü", everything)
        assert await store.note(SPACE, "empty", b"")
        assert await store.notes(SPACE) == {"nightly ü": everything, "empty": b""}
        assert await store.notes("elsewhere") == {}
        assert await store.note(SPACE, "empty", b"full")
        assert (await store.notes(SPACE))["empty"] == b"full"

    async def test_a_note_is_removed(self, store: Store) -> None:
        await store.note(SPACE, "one", b"1")
        await store.note(SPACE, "two", b"2")
        assert await store.note(SPACE, "one", None)
        assert await store.notes(SPACE) == {"two": b"2"}
        await store.note(SPACE, "one", None)
        assert await store.notes(SPACE) == {"two": b"2"}

    async def test_a_note_is_kept_for_its_time(self, store: Store) -> None:
        await store.note(SPACE, "brief", b"1", ttl=0.3)
        await store.note(SPACE, "long", b"2", ttl=60)
        await store.note(SPACE, "for ever", b"3")
        assert len(await store.notes(SPACE)) == 3
        await self.pass_time(0.31)
        assert await store.notes(SPACE) == {"long": b"2", "for ever": b"3"}

    async def test_writing_again_sets_the_time_anew(self, store: Store) -> None:
        await store.note(SPACE, "longer", b"1", ttl=0.2)
        await store.note(SPACE, "longer", b"1", ttl=60)
        await store.note(SPACE, "for ever", b"2", ttl=0.2)
        await store.note(SPACE, "for ever", b"2")
        await store.note(SPACE, "shorter", b"3")
        await store.note(SPACE, "shorter", b"3", ttl=0.2)
        await self.pass_time(0.21)
        assert await store.notes(SPACE) == {"longer": b"1", "for ever": b"2"}

    async def test_a_note_is_changed_only_if_it_is_as_expected(self, store: Store) -> None:
        assert not await store.note(SPACE, "one", b"new", expected=b"old")
        assert await store.note(SPACE, "one", b"old", expected=None)
        assert not await store.note(SPACE, "one", b"other", expected=None)
        assert not await store.note(SPACE, "one", b"new", expected=b"older")
        assert not await store.note(SPACE, "one", None, expected=b"older")
        assert await store.notes(SPACE) == {"one": b"old"}
        assert await store.note(SPACE, "one", b"new", expected=b"old")
        assert await store.note(SPACE, "one", b"", expected=b"new")
        assert not await store.note(SPACE, "one", b"x", expected=None)
        assert await store.note(SPACE, "one", None, expected=b"")
        assert await store.notes(SPACE) == {}

    async def test_what_has_expired_is_not_there(self, store: Store) -> None:
        names = [str(number) for number in range(150)]
        for name in names:
            await store.note(SPACE, name, b"1", ttl=0.6)
        await self.pass_time(0.61)
        assert not await store.note(SPACE, names[-1], b"2", expected=b"1")
        assert await store.note(SPACE, names[-1], b"2", expected=None)
        assert await store.notes(SPACE) == {names[-1]: b"2"}

    async def test_one_of_many_who_expect_the_same_wins(self, store: Store) -> None:
        tries = (store.note(SPACE, "one", b"%d" % i, expected=None) for i in range(10))
        assert sum(await asyncio.gather(*tries)) == 1

    async def test_who_listens_hears_of_what_is_kept(self, store: Store) -> None:
        heard = asyncio.Event()
        subscription = await store.hear_notes(SPACE, lambda _: heard.set())
        await asyncio.sleep(0.05)
        for value in (b"1", None):
            heard.clear()
            await store.note(SPACE, "one", value)
            await asyncio.wait_for(heard.wait(), 10)
        await subscription.close()
