"""Progress, log lines, and what jobs have done once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from headrace.core.job.constraints import Constraints
from headrace.core.job.ids import JobId
from headrace.core.job.outcome import DONE, RELEASED, Outcome, Retried
from headrace.store.contract import Store
from headrace.store.values import LogPage, Report
from headrace.testing.conformance.ground import HISTORY, QUEUE, Ground, kept, parcel
from headrace.testing.conformance.jobs.settlement import CANCELLED, DEAD

HALF = b"\x92\xcb\x3f\xe0\x00\x00\x00\x00\x00\x00\xa0"
ENDS: list[Outcome] = [DONE, kept(), CANCELLED]


class ReportsConformance(Ground):
    async def test_progress_is_seen_until_the_job_ends(self, store: Store) -> None:
        (key,) = await self.send(store)
        worker = self.worker(store)
        taken = await self.take(worker)
        assert (await self.snapshot(store, key)).progress == b""
        for progress in (b"\x91\x01", HALF):
            await store.report(QUEUE, [Report(key, progress)])
            assert (await self.snapshot(store, key)).progress == progress
        await store.report(QUEUE, [Report(key, lines=("only a line",))])
        await self.settle(worker, taken, Retried(60_000, HISTORY))
        assert (await self.snapshot(store, key)).progress == HALF

    @pytest.mark.parametrize(
        "constraints", [Constraints(), Constraints(priority=3)], ids=["plain", "constrained"]
    )
    @pytest.mark.parametrize("outcome", ENDS, ids=["done", "kept", "cancelled"])
    async def test_progress_goes_with_the_job(
        self, store: Store, outcome: Outcome, constraints: Constraints
    ) -> None:
        item = parcel(constraints=constraints)
        await store.append(QUEUE, [item])
        worker = self.worker(store)
        taken = await self.take(worker)
        await store.report(QUEUE, [Report(item.job_id, HALF)])
        await self.end(store, worker, taken, outcome)
        for _ in range(2):
            (snapshot,) = await store.get(QUEUE, [item.job_id])
            assert snapshot is None or snapshot.progress == b""
            # A report that comes too late changes nothing.
            await store.report(QUEUE, [Report(item.job_id, HALF)])

    @pytest.mark.parametrize(
        "constraints", [Constraints(), Constraints(priority=3)], ids=["plain", "constrained"]
    )
    async def test_a_dead_job_keeps_its_progress_until_it_is_purged(
        self, store: Store, constraints: Constraints
    ) -> None:
        item = parcel(constraints=constraints)
        await store.append(QUEUE, [item])
        worker = self.worker(store)
        for again in (True, False):
            taken = await self.take(worker)
            await store.report(QUEUE, [Report(item.job_id, HALF)])
            await self.end(store, worker, taken, DEAD)
            # A report that comes too late changes nothing.
            await store.report(QUEUE, [Report(item.job_id, b"\x91\x01")])
            assert (await self.snapshot(store, item.job_id)).progress == HALF
            if again:
                await store.replay(QUEUE, [item.job_id])
                assert (await self.snapshot(store, item.job_id)).progress == HALF
        await store.purge(QUEUE, [item.job_id])
        await store.append(QUEUE, [item])
        assert (await self.snapshot(store, item.job_id)).progress == b""

    async def test_unknown_jobs_report_nothing(self, store: Store) -> None:
        await store.report(QUEUE, [Report(b"=nobody", HALF, ("hello",))])
        assert await store.get(QUEUE, [b"=nobody"]) == [None]
        assert await store.log(QUEUE, b"=nobody") == LogPage([], 0)

    async def test_reporting_nothing_is_allowed(self, store: Store) -> None:
        await store.report(QUEUE, [])

    async def test_lines_are_kept_in_order(self, store: Store) -> None:
        first, second = await self.send(store, 2)
        await store.report(QUEUE, [Report(first, lines=("one", "two")), Report(second, HALF)])
        await store.report(
            QUEUE, [Report(second, lines=("zwei",)), Report(first, HALF, ("drei ü",))]
        )
        assert await store.log(QUEUE, first) == LogPage(["one", "two", "drei ü"], 3)
        assert await store.log(QUEUE, second) == LogPage(["zwei"], 1)

    async def test_a_log_is_read_on_from_a_line(self, store: Store) -> None:
        (key,) = await self.send(store)
        await store.report(QUEUE, [Report(key, lines=("a", "b", "c"))])
        assert await store.log(QUEUE, key, 2) == LogPage(["c"], 3)
        assert await store.log(QUEUE, key, 3) == LogPage([], 3)
        await store.report(QUEUE, [Report(key, lines=("d",))])
        assert await store.log(QUEUE, key, 3) == LogPage(["d"], 4)

    async def test_a_log_keeps_its_last_thousand_lines(self, store: Store) -> None:
        (key,) = await self.send(store)
        for start in range(0, 1500, 300):
            lines = tuple(str(number) for number in range(start, start + 300))
            await store.report(QUEUE, [Report(key, lines=lines)])
        page = await store.log(QUEUE, key)
        assert page == LogPage([str(number) for number in range(500, 1500)], 1500)
        assert await store.log(QUEUE, key, 1490) == LogPage(page.lines[990:], 1500)
        assert (await store.log(QUEUE, key, 100)).lines == page.lines
        await store.report(QUEUE, [Report(key, lines=tuple("x" * 2000))])
        assert await store.log(QUEUE, key) == LogPage(["x"] * 1000, 3500)

    async def test_a_log_outlives_its_job(self, store: Store) -> None:
        (key,) = await self.send(store)
        await store.report(QUEUE, [Report(key, lines=("it was here",))])
        worker = self.worker(store)
        await self.settle(worker, await self.take(worker), DONE)
        assert (await store.log(QUEUE, key)).lines == ["it was here"]

    async def test_who_watches_hears_of_reports(self, store: Store) -> None:
        notified = asyncio.Event()

        def listener(job_ids: Sequence[JobId] | None) -> None:
            if job_ids is None or key in job_ids:
                notified.set()

        (key,) = await self.send(store)
        handle = await store.on_reports(QUEUE, listener)
        await asyncio.sleep(0.05)
        notified.clear()
        await store.report(QUEUE, [Report(key, HALF)])
        await asyncio.wait_for(notified.wait(), 10)
        await handle.close()


class OnceConformance(Ground):
    async def test_marks_are_kept_by_name(self, store: Store) -> None:
        first, second = await self.send(store, 2)
        assert await store.once_all(QUEUE, first) == {}
        await store.once_set(QUEUE, first, "charge", b"\x01")
        await store.once_set(QUEUE, first, "mail ü", b"")
        await store.once_set(QUEUE, first, "1", bytes(range(256)) * 300)
        await store.once_set(QUEUE, first, "charge", b"\x02")
        assert await store.once_all(QUEUE, first) == {
            "charge": b"\x02",
            "mail ü": b"",
            "1": bytes(range(256)) * 300,
        }
        assert await store.once_all(QUEUE, second) == {}

    async def test_marks_are_kept_until_the_job_is_done(self, store: Store) -> None:
        (key,) = await self.send(store)
        worker = self.worker(store)
        taken = await self.take(worker)
        await store.once_set(QUEUE, key, "charge", b"\x01")
        for outcome in (RELEASED, Retried(0, HISTORY), Retried(50, HISTORY), DEAD):
            await self.settle(worker, taken, outcome)
            assert await store.once_all(QUEUE, key) == {"charge": b"\x01"}
            await self.pass_time(0.06)
            await worker.promote(QUEUE)
            if outcome is DEAD:
                await store.replay(QUEUE, [key])
            taken = await worker.reclaim(QUEUE, 9, last_chance=True) or await self.take(worker)
            taken[0].job_id = key
        assert await store.once_all(QUEUE, key) == {"charge": b"\x01"}
        await self.settle(worker, taken, DONE)
        assert await store.once_all(QUEUE, key) == {}

    async def test_marks_go_with_a_purged_or_cancelled_job(self, store: Store) -> None:
        dead, other = await self.send(store, 2)
        worker = self.worker(store)
        for key in (dead, other):
            await store.once_set(QUEUE, key, "charge", b"\x01")
        await self.settle(worker, await self.take(worker), DEAD)
        await store.purge(QUEUE, [dead])
        await store.cancel(QUEUE, [other])
        for key in (dead, other):
            assert await store.once_all(QUEUE, key) == {}

    async def test_dead_jobs_cannot_be_marked(self, store: Store) -> None:
        (key,) = await self.send(store)
        worker = self.worker(store)
        taken = await self.take(worker)
        await store.once_set(QUEUE, key, "charge", b"\x01")
        await self.settle(worker, taken, DEAD)
        await store.once_set(QUEUE, key, "charge", b"\x02")
        await store.once_set(QUEUE, key, "mail", b"\x03")
        assert await store.once_all(QUEUE, key) == {"charge": b"\x01"}

    async def test_unknown_jobs_cannot_be_marked(self, store: Store) -> None:
        await store.once_set(QUEUE, b"=nobody", "charge", b"\x01")
        assert await store.once_all(QUEUE, b"=nobody") == {}
