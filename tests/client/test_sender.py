"""Sends share round trips, and an unknown answer is not the end."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import pytest

from headrace import EnqueueUnknown, Headrace, StoreFull, StoreUnavailable
from headrace.client.send.sender import Sender
from headrace.core.job import ids
from headrace.core.job.ids import JobId
from headrace.core.job.parcel import Parcel
from headrace.store.values import IdempotencyKey
from tests.servers import RedisServer


def parcel() -> Parcel:
    return Parcel(ids.new_id(), b"envelope")


class Recorder:
    """Stands where the store stands and notes what is appended, after failing as told."""

    def __init__(
        self, failures: Sequence[Exception] = (), taken: Mapping[JobId, JobId] | None = None
    ) -> None:
        self._failures = list(failures)
        self._taken = taken or {}
        self.batches: list[int] = []
        self.may_exist: list[bool] = []
        self.keys: list[IdempotencyKey | None] = []
        self.given_up: list[IdempotencyKey | None] = []

    def give_up(self, idempotency: IdempotencyKey) -> None:
        self.given_up.append(idempotency)

    async def append(
        self,
        queue: str,
        parcels: Sequence[Parcel],
        *,
        may_exist: bool = False,
        idempotency: IdempotencyKey | None = None,
        bound: object = None,
        confirm: object = None,
    ) -> dict[int, JobId]:
        await asyncio.sleep(0)
        self.may_exist.append(may_exist)
        self.keys.append(idempotency)
        if self._failures:
            raise self._failures.pop(0)
        self.batches.append(len(parcels))
        return {
            at: self._taken[item.job_id]
            for at, item in enumerate(parcels)
            if item.job_id in self._taken
        }


def sender_to(recorder: Recorder) -> Sender:
    return Sender(recorder)  # type: ignore[arg-type]


async def test_sends_of_the_same_moment_share_a_batch() -> None:
    recorder = Recorder()
    sender = sender_to(recorder)
    await asyncio.gather(*(sender.send("q", [parcel()]) for _ in range(100)))
    assert recorder.batches == [1, 99]


async def test_a_lone_send_waits_for_nothing() -> None:
    recorder = Recorder()
    await sender_to(recorder).send("q", [parcel()])
    assert recorder.batches == [1]


async def test_a_large_gathering_is_sent_in_batches() -> None:
    recorder = Recorder()
    sender = sender_to(recorder)
    await asyncio.gather(*(sender.send("q", [parcel()]) for _ in range(1201)))
    assert recorder.batches == [1, 500, 500, 200]


async def test_a_send_that_was_never_answered_is_not_waited_for_again() -> None:
    silence = StoreUnavailable("no answer within 10 s", sent=True, silent=True)
    recorder = Recorder([silence, silence])
    with pytest.raises(EnqueueUnknown):
        await sender_to(recorder).send("q", [parcel()])
    assert recorder.may_exist == [False]
    assert recorder.given_up == recorder.keys


async def test_a_lost_answer_is_followed_by_a_repeat_that_says_so() -> None:
    recorder = Recorder([StoreUnavailable("gone", sent=True)])
    await sender_to(recorder).send("q", [parcel()])
    assert recorder.may_exist == [False, True]
    first, second = recorder.keys
    assert first is second is not None
    assert recorder.given_up == []


async def test_what_never_left_is_not_called_a_repeat() -> None:
    recorder = Recorder([StoreUnavailable("refused", sent=False)])
    await sender_to(recorder).send("q", [parcel()])
    assert recorder.may_exist == [False, False]


async def test_an_answer_that_stays_unknown_names_the_jobs() -> None:
    recorder = Recorder([StoreUnavailable("gone", sent=True)] * 20)
    item = parcel()
    with pytest.raises(EnqueueUnknown) as unknown:
        await sender_to(recorder).send("q", [item])
    assert unknown.value.job_id == ids.to_text(item.job_id)
    assert recorder.given_up == recorder.keys[:1]


async def test_a_store_that_is_full_when_asked_again_does_not_make_it_known() -> None:
    recorder = Recorder([StoreUnavailable("gone", sent=True), StoreFull("no room")])
    with pytest.raises(EnqueueUnknown, match="no room"):
        await sender_to(recorder).send("q", [parcel()])
    assert recorder.given_up == recorder.keys[:1]


async def test_each_caller_that_waited_gets_its_own_jobs() -> None:
    recorder = Recorder([StoreUnavailable("gone", sent=True)] * 20)
    sender = sender_to(recorder)
    items = [parcel() for _ in range(3)]
    answers = await asyncio.gather(
        *(sender.send("q", [item]) for item in items), return_exceptions=True
    )
    named = [answer.job_id for answer in answers if isinstance(answer, EnqueueUnknown)]
    assert named == [ids.to_text(item.job_id) for item in items]


async def test_each_sender_gets_the_jobs_that_stand_for_its_own() -> None:
    sends = [[parcel() for _ in range(count)] for count in (1, 3, 700, 2)]
    taken = {sends[1][2].job_id: b"a", sends[2][650].job_id: b"b", sends[3][0].job_id: b"c"}
    sender = sender_to(Recorder(taken=taken))
    refused = await asyncio.gather(*(sender.send("q", items) for items in sends))
    assert refused == [{}, {2: b"a"}, {650: b"b"}, {0: b"c"}]


async def test_a_full_store_is_reported_at_once() -> None:
    with pytest.raises(StoreFull):
        await sender_to(Recorder([StoreFull("no room")])).send("q", [parcel()])


async def test_one_who_stops_waiting_does_not_harm_the_others() -> None:
    recorder = Recorder()
    sender = sender_to(recorder)
    tasks = [asyncio.create_task(sender.send("q", [parcel()])) for _ in range(5)]
    await asyncio.sleep(0)
    tasks[2].cancel()
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(answer) for answer in answers].count(asyncio.CancelledError) == 1
    assert sum(recorder.batches) == 5


async def test_a_thousand_sends_cost_a_handful_of_commands(redis_server: RedisServer) -> None:
    app = Headrace(redis_server.url)

    @app.task
    async def add(a: int, b: int) -> int:
        return a + b

    async with app:
        await add.enqueue(1, 1)
        redis_server.call("CONFIG", "RESETSTAT")
        await asyncio.gather(*(add.enqueue(n, n) for n in range(1000)))
        stats = redis_server.call("INFO", "commandstats").decode()
        line = next(line for line in stats.splitlines() if line.startswith("cmdstat_evalsha:"))
        calls = int(line.split("calls=")[1].split(",")[0])
        assert (await app.store.count("default")).waiting == 1001
    assert calls <= 4
