"""Dead jobs, events and log lines of a queue are kept as long, and as many, as its bounds say."""

from __future__ import annotations

from headrace.core.job.history_rules import HistoryBounds, QueueRetention
from headrace.store.contract import Store
from headrace.store.values import Report
from headrace.testing.conformance.ground import LEASE, QUEUE, Ground
from headrace.testing.conformance.jobs.settlement import DEAD

OTHER = "other"


class QueueRetentionConformance(Ground):
    async def test_of_too_many_dead_jobs_the_oldest_go(self, store: Store) -> None:
        store.history_rules.queues.set(QUEUE, QueueRetention(dead=HistoryBounds(2, 60_000)))
        worker = self.worker(store, queues=(QUEUE, OTHER))
        sent = await self.send(store, 4)
        for _ in sent:
            await self.settle(worker, await self.take(worker), DEAD)
            await self.pass_time(0.002)
        await self.send(store, 4, OTHER)
        await self.settle(worker, await self.take(worker, 4), DEAD)
        await self.look_regularly(worker, LEASE / 3)
        assert [job.job_id for job in (await store.dead(QUEUE)).jobs] == [sent[3], sent[2]]
        assert len((await store.dead(OTHER)).jobs) == 4

    async def test_fewer_dead_jobs_are_kept_from_then_on(self, store: Store) -> None:
        worker = self.worker(store)
        await self.send(store, 5)
        await self.settle(worker, await self.take(worker, 5), DEAD)
        store.history_rules.queues.set_default(QueueRetention(dead=HistoryBounds(3, 3_600_000)))
        await self.look_regularly(worker, LEASE * 2)
        assert len((await store.dead(QUEUE)).jobs) == 3
        assert (await store.count(QUEUE)).dead == 3

    async def test_dead_jobs_go_after_their_time(self, store: Store) -> None:
        store.history_rules.queues.set(QUEUE, QueueRetention(dead=HistoryBounds(100, 20)))
        worker = self.worker(store)
        await self.send(store, 2)
        await self.settle(worker, await self.take(worker, 2), DEAD)
        await self.pass_time(0.05)
        await self.look_regularly(worker, LEASE * 2)
        assert (await store.count(QUEUE)).dead == 0

    async def test_the_latest_events_of_a_queue_are_kept(self, store: Store) -> None:
        store.history_rules.queues.set(QUEUE, QueueRetention(events=10))
        for queue in (QUEUE, OTHER):
            for _ in range(30):
                await self.send(store, 1, queue)
        assert 10 <= len(await store.events(QUEUE)) <= 12
        assert len(await store.events(OTHER)) == 30

    async def test_the_last_lines_of_a_log_are_kept(self, store: Store) -> None:
        store.history_rules.queues.set(QUEUE, QueueRetention(log=3))
        store.history_rules.queues.set(OTHER, QueueRetention(log=20_000))
        worker = self.worker(store, queues=(QUEUE, OTHER))
        lines = tuple(map(str, range(10_000)))
        for queue in (QUEUE, OTHER):
            (job_id,) = await self.send(store, 1, queue)
            await self.take(worker)
            await store.report(queue, [Report(job_id, b"", ("begun",))])
            await store.report(queue, [Report(job_id, b"", lines)])
            page = await store.log(queue, job_id)
            assert page.lines == (["begun", *lines] if queue == OTHER else list(lines[-3:]))
            assert page.following == 10_001
