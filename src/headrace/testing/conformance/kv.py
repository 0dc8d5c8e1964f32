"""Key-value pairs."""

from __future__ import annotations

import asyncio

from headrace.store.contract import Store
from headrace.testing.conformance.ground import Ground

SPACE = "schedules"


class KvConformance(Ground):
    async def test_a_note_is_kept(self, store: Store) -> None:
        assert await store.kv_all(SPACE) == {}
        everything = bytes(range(256))
        assert await store.kv_set(SPACE, "nightly ü", everything)
        assert await store.kv_set(SPACE, "empty", b"")
        assert await store.kv_all(SPACE) == {"nightly ü": everything, "empty": b""}
        assert await store.kv_all("elsewhere") == {}
        assert await store.kv_set(SPACE, "empty", b"full")
        assert (await store.kv_all(SPACE))["empty"] == b"full"

    async def test_a_note_is_removed(self, store: Store) -> None:
        await store.kv_set(SPACE, "one", b"1")
        await store.kv_set(SPACE, "two", b"2")
        assert await store.kv_set(SPACE, "one", None)
        assert await store.kv_all(SPACE) == {"two": b"2"}
        await store.kv_set(SPACE, "one", None)
        assert await store.kv_all(SPACE) == {"two": b"2"}

    async def test_a_note_is_kept_for_its_time(self, store: Store) -> None:
        await store.kv_set(SPACE, "brief", b"1", ttl=30)
        await store.kv_set(SPACE, "long", b"2", ttl=60)
        await store.kv_set(SPACE, "for ever", b"3")
        assert len(await store.kv_all(SPACE)) == 3
        await self.pass_time(31)
        assert await store.kv_all(SPACE) == {"long": b"2", "for ever": b"3"}

    async def test_writing_again_sets_the_time_anew(self, store: Store) -> None:
        await store.kv_set(SPACE, "longer", b"1", ttl=20)
        await store.kv_set(SPACE, "longer", b"1", ttl=60)
        await store.kv_set(SPACE, "for ever", b"2", ttl=20)
        await store.kv_set(SPACE, "for ever", b"2")
        await store.kv_set(SPACE, "shorter", b"3")
        await store.kv_set(SPACE, "shorter", b"3", ttl=20)
        await self.pass_time(21)
        assert await store.kv_all(SPACE) == {"longer": b"1", "for ever": b"2"}

    async def test_a_note_is_changed_only_if_it_is_as_expected(self, store: Store) -> None:
        assert not await store.kv_set(SPACE, "one", b"new", expected=b"old")
        assert await store.kv_set(SPACE, "one", b"old", expected=None)
        assert not await store.kv_set(SPACE, "one", b"other", expected=None)
        assert not await store.kv_set(SPACE, "one", b"new", expected=b"older")
        assert not await store.kv_set(SPACE, "one", None, expected=b"older")
        assert await store.kv_all(SPACE) == {"one": b"old"}
        assert await store.kv_set(SPACE, "one", b"new", expected=b"old")
        assert await store.kv_set(SPACE, "one", b"", expected=b"new")
        assert not await store.kv_set(SPACE, "one", b"x", expected=None)
        assert await store.kv_set(SPACE, "one", None, expected=b"")
        assert await store.kv_all(SPACE) == {}

    async def test_what_has_expired_is_not_there(self, store: Store) -> None:
        names = [str(number) for number in range(150)]
        for name in names:
            await store.kv_set(SPACE, name, b"1", ttl=60)
        await self.pass_time(61)
        assert not await store.kv_set(SPACE, names[-1], b"2", expected=b"1")
        assert await store.kv_set(SPACE, names[-1], b"2", expected=None)
        assert await store.kv_all(SPACE) == {names[-1]: b"2"}

    async def test_one_of_many_who_expect_the_same_wins(self, store: Store) -> None:
        tries = (store.kv_set(SPACE, "one", b"%d" % i, expected=None) for i in range(10))
        assert sum(await asyncio.gather(*tries)) == 1

    async def test_who_listens_hears_of_what_is_kept(self, store: Store) -> None:
        notified = asyncio.Event()
        handle = await store.on_kv(SPACE, lambda _: notified.set())
        await asyncio.sleep(0.05)
        for value in (b"1", None):
            notified.clear()
            await store.kv_set(SPACE, "one", value)
            await asyncio.wait_for(notified.wait(), 10)
        await handle.close()

    async def test_records_are_in_the_order_of_their_names_and_read_by_pages(
        self, store: Store
    ) -> None:
        now = await store.time_ms()
        names = [f"{now + number:014d}-{number}" for number in range(7)]
        for name in (*names[3:], *names[:3]):
            await store.record(SPACE, name, name.encode(), keep=60, most=100)
        found, before = list[str](), ""
        while page := await store.records(SPACE, before, 3, keep=60):
            assert all(value == name.encode() for name, value in page)
            found += [name for name, _ in page]
            before = found[-1]
        assert found == names[::-1]
        assert await store.records("elsewhere", "", 3, keep=60) == []

    async def test_a_record_takes_the_place_of_one_of_its_name(self, store: Store) -> None:
        name = f"{await store.time_ms():014d}-1"
        for value in (b"begun", bytes(range(256))):
            await store.record(SPACE, name, value, keep=60, most=100)
        assert await store.records(SPACE, "", 10, keep=60) == [(name, value)]

    async def test_records_are_kept_by_time_and_within_a_bound(self, store: Store) -> None:
        now = await store.time_ms()
        names = [f"{now - 1_000 * number:014d}" for number in (90, 50, 40, 30, 20, 10, 0)]
        for name in names:
            await store.record(SPACE, name, b"", keep=3_600, most=100)

        async def kept(keep: float) -> list[str]:
            return [name for name, _ in await store.records(SPACE, "", 100, keep=keep)][::-1]

        assert await kept(3_600) == names
        assert await kept(60) == names[1:], "older entries are not returned"
        await store.record(SPACE, f"{now:014d}-2", b"", keep=60, most=100)
        assert await kept(3_600) == [*names[1:], f"{now:014d}-2"]
        await store.record(SPACE, f"{now:014d}-3", b"", keep=60, most=3)
        assert await kept(3_600) == [names[-1], f"{now:014d}-2", f"{now:014d}-3"]
