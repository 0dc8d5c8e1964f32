"""Jobs with limits ask the store before they start; those without do not notice."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from headrace import Headrace, Job, State
from headrace.core.job.delivery import LeasedDelivery
from headrace.core.job.failure import GateClosed
from headrace.errors import StoreUnavailable
from headrace.store.values import IdempotencyKey
from headrace.worker.run.admitter import Admitter
from tests.worker.states import reach, until


class Gatekeeper:
    """The one verb of a consumer that matters here. Lets `free` jobs in; answers when told to."""

    def __init__(self, free: int) -> None:
        self.free = free
        self.asked: list[list[LeasedDelivery]] = []
        self.open = asyncio.Event()
        self.troubles = 0

    async def begin(
        self,
        queue: str,
        deliveries: Sequence[LeasedDelivery],
        *,
        idempotency: IdempotencyKey | None = None,
    ) -> dict[LeasedDelivery, str]:
        self.asked.append(list(deliveries))
        await self.open.wait()
        if self.troubles:
            self.troubles -= 1
            raise StoreUnavailable("away")
        refused = deliveries[self.free :]
        self.free -= len(deliveries) - len(refused)
        return dict.fromkeys(refused, "limit")


def delivery(number: int) -> LeasedDelivery:
    return LeasedDelivery("q", number, b"")


async def admitted(keeper: Gatekeeper, count: int) -> list[Any]:
    asking = Admitter(keeper)  # type: ignore[arg-type]
    first = asyncio.create_task(asking.count_delivery(delivery(0)))
    await until(lambda: keeper.asked)
    rest = [asyncio.create_task(asking.count_delivery(delivery(n))) for n in range(1, count)]
    await asyncio.sleep(0)
    keeper.open.set()
    return await asyncio.gather(first, *rest, return_exceptions=True)


async def test_those_who_ask_at_the_same_time_share_one_round_trip() -> None:
    keeper = Gatekeeper(free=3)
    answers = await admitted(keeper, 5)
    assert [len(asked) for asked in keeper.asked] == [1, 4]
    assert [isinstance(answer, GateClosed) for answer in answers] == [False] * 3 + [True] * 2


async def test_a_store_that_is_away_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.worker.service._FIRST_PAUSE", 0.001)
    keeper = Gatekeeper(free=2)
    keeper.troubles = 2
    assert await admitted(keeper, 2) == [None, None]


async def test_who_stops_asking_is_not_asked_for() -> None:
    keeper = Gatekeeper(free=5)
    asking = Admitter(keeper)  # type: ignore[arg-type]
    first = asyncio.create_task(asking.count_delivery(delivery(0)))
    await until(lambda: keeper.asked)
    second = asyncio.create_task(asking.count_delivery(delivery(1)))
    await asyncio.sleep(0)
    second.cancel()
    keeper.open.set()
    await first
    await asyncio.gather(second, return_exceptions=True)
    await asking.count_delivery(delivery(2))
    assert [[d.receipt for d in asked] for asked in keeper.asked] == [[0], [2]]


async def test_when_the_asking_is_cut_short_nobody_waits_for_ever() -> None:
    keeper = Gatekeeper(free=5)
    asking = Admitter(keeper)  # type: ignore[arg-type]
    first = asyncio.create_task(asking.count_delivery(delivery(0)))
    await until(lambda: keeper.asked)
    second = asyncio.create_task(asking.count_delivery(delivery(1)))
    await asyncio.sleep(0)
    (asker,) = (task for task in asyncio.all_tasks() if task.get_name() == "headrace-admitter")
    asker.cancel()
    for cut_short in (first, second):
        with pytest.raises(StoreUnavailable, match="jobs of queue 'q'"):
            await cut_short
    keeper.open.set()
    await asking.count_delivery(delivery(2))


@pytest.mark.parametrize("kind", ["loop", "thread"])
async def test_a_job_over_its_limit_waits_in_the_store(app: Headrace, kind: str) -> None:
    ran: list[int] = []

    async def on_loop(number: int) -> None:
        ran.append(number)

    def in_thread(number: int) -> None:
        ran.append(number)

    function: Any = on_loop if kind == "loop" else in_thread
    task = app.task(rate="2/h", name="limited")(function)
    jobs: list[Job[Any]] = await app.enqueue_many(task.call(number) for number in range(5))
    async with app.worker():
        states = await reach(jobs, State.DONE, State.BLOCKED)
    assert sorted(states) == [State.BLOCKED] * 3 + [State.DONE] * 2
    assert len(ran) == 2


async def test_of_a_batch_those_run_that_may(app: Headrace) -> None:
    batches: list[int] = []

    @app.task(batch=5, max_wait=0.1, rate="3/h")
    async def load(rows: list[int]) -> None:
        batches.append(len(rows))

    jobs = await app.enqueue_many(load.call(number) for number in range(5))
    async with app.worker():
        states = await reach(jobs, State.DONE, State.BLOCKED)
    assert (sum(batches), states.count(State.DONE)) == (3, 3)
