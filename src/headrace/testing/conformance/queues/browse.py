"""Pages of jobs by state."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

import pytest

from headrace.core.job.constraints import Constraints, Limit
from headrace.core.job.ids import JobId
from headrace.core.job.outcome import RELEASED, Outcome
from headrace.core.job.state import State
from headrace.errors import ConfigError
from headrace.store.contract import Store
from headrace.testing.conformance.ground import QUEUE, Ground, ids_of, kept, parcel
from headrace.testing.conformance.jobs.settlement import DEAD


class BrowseConformance(Ground):
    async def pages(
        self,
        store: Store,
        state: State,
        limit: int = 100,
        between: Callable[[], Awaitable[object]] | None = None,
    ) -> list[JobId]:
        """All ids, from the first page to the last."""
        found: list[JobId] = []
        cursor = ""
        while True:
            page = await store.browse(QUEUE, state, cursor, limit)
            found += page.job_ids
            cursor = page.cursor
            if not cursor:
                return found
            if between is not None:
                await between()

    async def test_an_empty_queue_has_no_jobs_in_any_state(self, store: Store) -> None:
        for state in State:
            assert await self.pages(store, state) == []

    async def test_each_state_has_its_jobs(self, store: Store) -> None:
        worker, lane, slow = self.worker(store), Constraints(lane="a"), (Limit("slow", 1, 60_000),)
        running, released, dead, done = await self.send(store, 4)
        taken = await self.take(worker, 4)
        scheduled = [
            parcel(delay_ms=60_000),
            parcel(delay_ms=50_000, constraints=Constraints(priority=1)),
        ]
        waiting = [
            parcel(constraints=lane),
            parcel(constraints=Constraints(limits=slow)),
            parcel(constraints=Constraints(priority=7)),
            parcel(),
        ]
        blocked = [
            parcel(constraints=lane),
            parcel(constraints=Constraints(limits=slow, priority=4)),
            parcel(parents=scheduled[:1]),
        ]
        await store.append(QUEUE, [*scheduled, *waiting, *blocked])
        outcomes: list[Outcome] = [RELEASED, DEAD, kept()]
        for delivery, outcome in zip(taken[1:], outcomes, strict=True):
            await self.settle(worker, [delivery], outcome)
        expected = {
            State.RUNNING: [running],
            State.WAITING: [released, *(item.job_id for item in waiting)],
            State.SCHEDULED: [item.job_id for item in scheduled],
            State.BLOCKED: [item.job_id for item in blocked],
            State.DEAD: [dead],
            State.DONE: [],
            State.CANCELLED: [],
        }
        for limit in (100, 2):
            for state, keys in expected.items():
                assert sorted(await self.pages(store, state, limit)) == sorted(keys), state
        assert done not in await self.pages(store, State.WAITING)

    @pytest.mark.parametrize("state", [State.WAITING, State.RUNNING])
    async def test_thousands_are_paged(self, store: Store, state: State) -> None:
        sent = await self.send(store, 1000)
        high = [parcel(constraints=Constraints(priority=number % 3)) for number in range(600)]
        await store.append(QUEUE, high)
        sent += [item.job_id for item in high]
        if state is State.RUNNING:
            await self.take(self.worker(store), len(sent))
        found = await self.pages(store, state, 300)
        assert sorted(found) == sorted(sent)

    async def test_thousands_of_scheduled_jobs_are_paged(self, store: Store) -> None:
        now = await store.time_ms()
        later = [parcel(at_ms=now + 60_000 + number % 7) for number in range(1000)]
        await store.append(QUEUE, later)
        found = await self.pages(store, State.SCHEDULED, 150)
        assert len(found) == 1000
        assert set(found) == {item.job_id for item in later}

    async def test_thousands_of_blocked_jobs_are_paged(self, store: Store) -> None:
        await self.send(store, 500)
        sent = [parcel(constraints=Constraints(lane="one")) for _ in range(1001)]
        await store.append(QUEUE, sent[:600])
        await store.append(QUEUE, sent[600:])
        found = await self.pages(store, State.BLOCKED, 100)
        assert set(found) == {item.job_id for item in sent[1:]}

    @pytest.mark.parametrize("state", [State.WAITING, State.SCHEDULED, State.BLOCKED])
    async def test_what_stays_is_seen_while_others_go(self, store: Store, state: State) -> None:
        """Jobs of a page are cancelled before the next page is read."""
        now = await store.time_ms()
        if state is State.SCHEDULED:
            items = [parcel(at_ms=now + 60_000 + number // 30) for number in range(300)]
        elif state is State.BLOCKED:
            items = [parcel(constraints=Constraints(lane="one")) for _ in range(300)]
        else:
            items = [parcel() for _ in range(300)]
        await store.append(QUEUE, items)
        going = [item.job_id for item in items[1::2]]
        staying = {item.job_id for item in items[2::2]}

        async def cancel_some() -> None:
            batch = [going.pop(0) for _ in range(min(20, len(going)))]
            await store.cancel(QUEUE, batch)

        found = await self.pages(store, state, 40, between=cancel_some)
        assert staying <= set(found)

    @pytest.mark.parametrize("cursor", ["x", "1 2", "-", "_", "1_2_3_4_5", "9" * 40])
    async def test_what_is_no_cursor_of_a_page_is_refused_by_name(
        self, store: Store, cursor: str
    ) -> None:
        await self.send(store)
        for state in (State.WAITING, State.SCHEDULED, State.RUNNING, State.BLOCKED, State.DEAD):
            with pytest.raises(ConfigError, match=re.escape(repr(cursor))):
                await store.browse(QUEUE, state, cursor)
        with pytest.raises(ConfigError, match=re.escape(repr(cursor))):
            await store.dead(QUEUE, cursor)

    async def test_a_page_is_not_much_longer_than_asked_for(self, store: Store) -> None:
        sent = await self.send(store, 50)
        page = await store.browse(QUEUE, State.WAITING, limit=10)
        assert page.job_ids == sent[:10]
        taken = await self.take(self.worker(store), 10)
        page = await store.browse(QUEUE, State.RUNNING, limit=10)
        assert page.job_ids == ids_of(taken)
