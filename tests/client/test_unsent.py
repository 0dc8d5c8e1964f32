"""Of many calls, the error names every job that is not stored, or may not be, and no other."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest

from headrace import (
    Call,
    EnqueueUnknown,
    Headrace,
    HeadraceError,
    Job,
    KeyFull,
    Middleware,
    OffloadError,
    QueueFull,
    SendError,
    StoreFull,
    StoreUnavailable,
)
from headrace.client.job import Send
from headrace.client.send import coalescer
from headrace.core.bounds import Overflow
from headrace.core.job import ids
from headrace.core.payload.offload import Offload

SILENT = StoreUnavailable("no answer within 10 s", sent=True, silent=True)
AWAY = StoreUnavailable("away", silent=True)


def calls_of(app: Headrace, ids: Iterable[str], **options: Any) -> list[Call[None]]:
    task = app.tasks.get("note") or app.task(name="note")(note)
    return [task.options(id=id, **options).call(1) for id in ids]


async def note(number: int) -> None: ...


def named(prefix: str, count: int) -> list[str]:
    return [f"{prefix}-{number}" for number in range(count)]


async def unstored(app: Headrace, calls: Sequence[Call[None]]) -> list[str]:
    """The ids of those that the store does not have."""
    missing: list[str] = []
    for call in calls:
        assert call.options.id is not None
        if (await app.store.get(call.queue, [ids.to_id(call.options.id)])) == [None]:
            missing.append(call.options.id)
    return missing


async def refused(app: Headrace, calls: Sequence[Call[None]]) -> SendError:
    """The error of sending these, which names those that are not stored."""
    with pytest.raises(SendError) as caught:
        await app.enqueue_many(calls)
    assert isinstance(caught.value, QueueFull | EnqueueUnknown)
    assert sorted(caught.value.job_ids) == sorted(await unstored(app, calls))
    return caught.value


class Failing:
    """Stands before the `append` of an app's store, and fails as told: by number of the append,
    from 0, an error and whether the jobs are stored all the same."""

    def __init__(
        self,
        app: Headrace,
        patch: pytest.MonkeyPatch,
        errors: Mapping[int, HeadraceError],
        stored: bool = False,
    ) -> None:
        self._append = app.store.append
        self._errors = errors
        self._stored = stored
        self.appends = 0
        patch.setattr(app.store, "append", self)

    async def __call__(self, *args: Any, **options: Any) -> Any:
        error = self._errors.get(self.appends)
        self.appends += 1
        if error is None or self._stored:
            answer = await self._append(*args, **options)
        if error is not None:
            raise error
        return answer


async def test_a_full_queue_names_the_jobs_of_later_batches(app: Headrace) -> None:
    app.queue("r", max_length=100)
    calls = calls_of(app, named("r", 1200), queue="r")
    full = await refused(app, calls)
    assert isinstance(full, QueueFull)
    assert (full.queue, full.max_length, len(full.job_ids)) == ("r", 100, 1100)
    assert full.job_ids == tuple(named("r", 1200)[100:])
    assert "1100 jobs were not stored" in str(full)
    assert "queues" not in str(full)


async def test_a_full_key_does_not_keep_later_batches_from_being_stored(app: Headrace) -> None:
    app.queue("e", max_pending_per_key=1)
    ada = calls_of(app, named("ada", 3), queue="e", key="ada")
    others = [calls_of(app, [f"o-{n}"], queue="e", key=f"k{n}")[0] for n in range(997)]
    full = await refused(app, [*ada, *others])
    assert isinstance(full, KeyFull)
    assert (full.key, full.job_ids) == ("ada", ("ada-2",))


async def test_a_full_queue_does_not_keep_other_queues_from_their_jobs(app: Headrace) -> None:
    app.queue("r", max_length=1)
    calls = [*calls_of(app, named("r", 3), queue="r"), *calls_of(app, named("o", 2), queue="o")]
    full = await refused(app, calls)
    assert isinstance(full, QueueFull)
    assert full.job_ids == ("r-1", "r-2")


async def test_one_error_stands_for_several_queues(app: Headrace) -> None:
    app.queue("e", max_pending_per_key=1)
    app.queue("r", max_length=1)
    calls = [
        *calls_of(app, named("ada", 4), queue="e", key="ada"),
        *calls_of(app, named("r", 3), queue="r"),
    ]
    full = await refused(app, calls)
    assert type(full) is QueueFull
    assert (full.queue, full.max_length) == ("r", 1)
    assert full.job_ids == ("ada-2", "ada-3", "r-1", "r-2")
    assert full.retryable
    assert "4 jobs were not stored" in str(full)
    assert "some of them for queue 'e'" in str(full)


@pytest.mark.parametrize("overflow", ["reject", "block"])
async def test_a_lost_answer_names_what_was_not_sent_after_it(
    app: Headrace, monkeypatch: pytest.MonkeyPatch, overflow: Overflow
) -> None:
    app.queue("b", max_length=10_000, overflow=overflow)
    calls = calls_of(app, named("b", 1200), queue="b")
    failing = Failing(app, monkeypatch, {1: SILENT})
    error = await refused(app, calls)
    assert isinstance(error, EnqueueUnknown)
    assert error.job_ids == tuple(named("b", 1200)[500:])
    assert failing.appends == 2
    await app.enqueue_many(calls)
    assert await unstored(app, calls) == []


async def test_a_lost_answer_names_the_jobs_of_later_queues(
    app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = [call for queue in "abc" for call in calls_of(app, named(queue, 2), queue=queue)]
    Failing(app, monkeypatch, {1: SILENT}, stored=True)
    with pytest.raises(EnqueueUnknown, match="whether 4 jobs reached the store: no answer") as lost:
        await app.enqueue_many(calls)
    assert lost.value.job_ids == ("b-0", "b-1", "c-0", "c-1")


async def test_a_store_that_goes_away_halfway_is_not_said_to_have_nothing(
    app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = [call for queue in "abc" for call in calls_of(app, named(queue, 2), queue=queue)]
    Failing(app, monkeypatch, {1: AWAY})
    error = await refused(app, calls)
    assert isinstance(error, EnqueueUnknown)
    assert error.job_ids == ("b-0", "b-1", "c-0", "c-1")
    assert isinstance(error.__cause__, StoreUnavailable)


@pytest.mark.parametrize("error", [AWAY, StoreFull("no room")])
async def test_an_error_of_the_store_itself_says_that_nothing_is_stored(
    app: Headrace, monkeypatch: pytest.MonkeyPatch, error: HeadraceError
) -> None:
    app.queue("r", max_length=1)
    await app.enqueue(calls_of(app, ["first"], queue="r")[0])
    calls = [*calls_of(app, named("r", 2), queue="r"), *calls_of(app, named("o", 600), queue="o")]
    Failing(app, monkeypatch, {1: error})
    with pytest.raises(type(error)) as caught:
        await app.enqueue_many(calls)
    assert caught.value is error
    assert len(await unstored(app, calls)) == 602


async def test_refusals_before_the_trouble_are_named_too(
    app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    app.queue("r", max_length=1)
    calls = [*calls_of(app, named("r", 2), queue="r"), *calls_of(app, named("o", 600), queue="o")]
    Failing(app, monkeypatch, {1: AWAY})
    error = await refused(app, calls)
    assert isinstance(error, EnqueueUnknown)
    assert error.job_ids == ("r-1", *named("o", 600))


async def test_large_jobs_that_go_in_several_appends(
    app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coalescer, "BATCH_BYTES", 200)
    calls = calls_of(app, named("o", 20))
    Failing(app, monkeypatch, {2: AWAY})
    error = await refused(app, calls)
    assert isinstance(error, EnqueueUnknown)
    assert 0 < len(error.job_ids) < 20


async def test_the_rounds_of_a_sender_that_waits_for_room_are_one(
    app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    app.queue("b", max_length=3, overflow="block", max_pending_per_key=1)
    calls = [
        *calls_of(app, named("ada", 3), queue="b", key="ada"),
        *calls_of(app, named("b", 4), queue="b"),
    ]
    Failing(app, monkeypatch, {1: AWAY})
    error = await refused(app, calls)
    assert isinstance(error, EnqueueUnknown)
    assert error.job_ids == ("ada-2", "b-1", "b-2", "b-3")


async def test_sends_that_share_an_append_hear_each_of_its_own(
    app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coalescer, "BATCH", 3)
    calls = calls_of(app, named("o", 12))
    failing = Failing(app, monkeypatch, {2: AWAY})
    one, first, across, last = await asyncio.gather(
        app.enqueue_many(calls[:1]),
        app.enqueue_many(calls[1:3]),
        app.outgoing.send_together(calls[3:7]),
        app.outgoing.send_together(calls[7:]),
        return_exceptions=True,
    )
    assert failing.appends == 3
    assert isinstance(one, list)
    assert isinstance(first, list)
    assert [job.id for job in one + first] == ["o-0", "o-1", "o-2"]
    assert isinstance(across, EnqueueUnknown)
    assert across.job_ids == ("o-4", "o-5", "o-6")
    assert last is AWAY


class Passing(Middleware):
    """Takes calls one by one."""

    async def send(self, call: Call[Any], send: Send) -> Job[Any]:
        return await send(call)


async def test_calls_that_go_one_by_one_fail_as_one(store_url: str, namespace: str) -> None:
    app = Headrace(store_url, namespace=namespace)
    app.middleware(Passing())
    app.queue("r", max_length=100)
    async with app:
        full = await refused(app, calls_of(app, named("r", 700), queue="r"))
    assert isinstance(full, QueueFull)
    assert len(full.job_ids) == 600


async def test_one_payload_that_cannot_be_kept_does_not_hide_the_others(app: Headrace) -> None:
    shelf: dict[str, bytes] = {}

    def put(key: str, payload: bytes) -> None:
        if b"bad" in payload:
            raise OSError("the shelf is full")
        shelf[key] = payload

    @app.task(offload=Offload(put, shelf.__getitem__, threshold=10))
    async def read(text: str) -> None: ...

    texts = ["good" * 10, "bad" * 10, "good" * 20]
    calls = [read.options(id=f"c-{at}").call(text) for at, text in enumerate(texts)]
    error = await refused(app, calls)
    assert isinstance(error, EnqueueUnknown)
    assert error.job_ids == ("c-1",)
    assert isinstance(error.__cause__, OffloadError)
