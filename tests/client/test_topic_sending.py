"""Publishes share round trips, and an unknown answer is not the end."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from headrace import (
    EnqueueUnknown,
    Headrace,
    HeadraceError,
    SendError,
    StoreFull,
    StoreUnavailable,
    Topic,
    TopicFull,
)
from headrace.client.send.sender import Sender
from headrace.client.session import ClientSession
from headrace.core.job import ids
from headrace.core.job.parcel import Parcel
from headrace.store.topics import Bound, Group, Position, Published
from headrace.store.values import IdempotencyKey
from tests.servers import RedisServer


class Recorder:
    """Stands where the store stands and notes what is published, after failing as told."""

    def __init__(self, failures: Sequence[Exception | None] = (), room: int = 10**9) -> None:
        self._failures = list(failures)
        self.room = room
        self.batches: list[int] = []
        self.may_exist: list[bool] = []
        self.joined: list[str] = []
        self.published: list[bytes] = []

    def give_up(self, idempotency: IdempotencyKey) -> None:
        """It is not asked for again."""

    async def publish(
        self,
        log: str,
        events: Sequence[Parcel],
        *,
        bound: Bound | None = None,
        may_exist: bool = False,
        idempotency: IdempotencyKey | None = None,
        confirm: object = None,
    ) -> Published:
        await asyncio.sleep(0)
        self.may_exist.append(may_exist)
        failure = self._failures.pop(0) if self._failures else None
        if failure is not None:
            raise failure
        taken = min(self.room, len(events))
        self.room -= taken
        self.batches.append(len(events))
        self.published += [event.job_id for event in events[:taken]]
        return Published(taken)

    async def join(self, queue: str, group: Group, begin: Position) -> bool:
        await asyncio.sleep(0)
        self.joined.append(queue)
        return True


LOST = StoreUnavailable("gone", sent=True)
REFUSED = StoreUnavailable("refused", sent=False)


def parcel() -> Parcel:
    return Parcel(ids.new_id(), b"envelope")


def sender_to(recorder: Recorder) -> Sender:
    return Sender(recorder)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.client.send.tries._FIRST_PAUSE", 0.0)


def topic_on(recorder: Recorder, **options: Any) -> Topic[str]:
    """A topic of an app whose store is the recorder."""
    app = Headrace("memory://")
    store: Any = recorder
    app._sessions.set(ClientSession(store))
    return app.topic("notes", str, **options)


async def test_publishes_of_the_same_moment_share_a_batch() -> None:
    recorder = Recorder()
    sender = sender_to(recorder)
    await asyncio.gather(*(sender.publish("@t", [parcel()]) for _ in range(100)))
    assert recorder.batches == [1, 99]


async def test_a_thousand_publishes_are_a_handful_of_steps() -> None:
    recorder = Recorder()
    topic = topic_on(recorder)

    @topic.subscribe("a")
    async def note(event: str) -> None: ...

    texts = await asyncio.gather(*(topic.publish(f"{n}") for n in range(1000)))
    assert len(recorder.batches) <= 4
    assert recorder.joined == ["a@notes"]
    assert [ids.to_text(key) for key in recorder.published] == texts


async def test_a_lost_answer_is_followed_by_a_repeat_that_says_so() -> None:
    recorder = Recorder([LOST])
    assert await sender_to(recorder).publish("@t", [parcel()]) == {}
    assert recorder.may_exist == [False, True]


async def test_what_never_left_is_not_called_a_repeat() -> None:
    recorder = Recorder([REFUSED])
    assert await sender_to(recorder).publish("@t", [parcel()]) == {}
    assert recorder.may_exist == [False, False]


async def test_each_publisher_gets_its_own_event() -> None:
    recorder = Recorder([LOST] * 20)
    topic = topic_on(recorder)
    answers = await asyncio.gather(
        *(topic.publish("x", id=f"note-{n}") for n in range(3)), return_exceptions=True
    )
    assert [a.job_ids for a in answers if isinstance(a, EnqueueUnknown)] == [
        ("note-0",),
        ("note-1",),
        ("note-2",),
    ]


async def test_after_a_failure_nothing_later_is_put_before_it() -> None:
    recorder = Recorder([None, *[LOST] * 6])
    events = [parcel() for _ in range(1200)]
    missing = await sender_to(recorder).publish("@t", events)
    assert recorder.batches == [500]
    assert sorted(missing) == list(range(500, 1200))
    kinds = [type(missing[at]) for at in range(500, 1200)]
    assert kinds == [EnqueueUnknown] * 500 + [StoreUnavailable] * 200


async def test_those_for_whom_there_is_no_room_are_the_last() -> None:
    recorder = Recorder(room=700)
    sender = sender_to(recorder)
    events = [parcel() for _ in range(1200)]
    missing = await sender.publish("@t", events, bound=Bound(700))
    assert sorted(missing) == list(range(700, 1200))
    assert all(isinstance(error, TopicFull) for error in missing.values())
    assert recorder.batches == [500, 500]


async def test_a_full_store_is_reported_at_once() -> None:
    recorder = Recorder([StoreFull("no room")])
    with pytest.raises(StoreFull):
        await topic_on(recorder).publish("x")


async def test_after_lost_answers_it_is_known_what_to_publish_again() -> None:
    recorder = Recorder([None, *[LOST] * 6])
    topic = topic_on(recorder)
    outcome = await topic.publish_many([str(n) for n in range(1200)])
    assert [result.ok for result in outcome] == [True] * 500 + [False] * 700
    assert [result.unknown for result in outcome.failed] == [True] * 500 + [False] * 200
    assert [each.event for each in outcome.to_republish] == [str(n) for n in range(500, 1200)]
    recorder.may_exist.clear()
    again = await topic.publish_many([*outcome.to_republish, "one more"])
    assert again.ok
    assert again.ids[:-1] == outcome.ids[500:]
    assert recorder.may_exist == [True, True]
    assert len(recorder.published) == len(set(recorder.published)) == 1201


async def test_a_failure_in_one_shard_is_none_in_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recorder = Recorder()
    topic = topic_on(recorder, shards=2, key=lambda text: text)
    events = [str(n) for n in range(2000)]
    monkeypatch.setattr(recorder, "publish", only_the_second)
    outcome = await topic.publish_many(events)
    failed = {each.event for each in outcome.to_republish}
    assert failed == {text for text in events if topic.prepare(text).log == "@notes"}
    assert 0 < len(failed) < 2000
    assert all(isinstance(result.error, HeadraceError) for result in outcome.failed)


async def only_the_second(log: str, events: Sequence[Parcel], **_: Any) -> Published:
    if log == "@notes":
        raise StoreUnavailable("this slot is elsewhere")
    return Published(len(events))


async def test_what_belongs_to_another_topic_is_refused() -> None:
    recorder = Recorder([REFUSED] * 6)
    topic = topic_on(recorder)
    outcome = await topic.publish_many(["x"])
    assert isinstance(topic.app, Headrace)
    other = topic.app.topic("letters", str)
    refused = await other.publish_many(outcome.to_republish)
    assert isinstance(refused[0].error, SendError)
    assert "another topic" in str(refused[0].error)
    assert refused.to_republish == []


async def test_if_groups_cannot_join_nothing_is_published(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recorder = Recorder()
    topic = topic_on(recorder)

    @topic.subscribe("a")
    async def note(event: str) -> None: ...

    async def join(*_: Any) -> bool:
        raise StoreUnavailable("gone")

    monkeypatch.setattr(recorder, "join", join)
    outcome = await topic.publish_many(["x"])
    assert isinstance(outcome[0].error, StoreUnavailable)
    assert [each.event for each in outcome.to_republish] == ["x"]
    with pytest.raises(StoreUnavailable):
        await topic.publish("x")
    assert recorder.published == []


async def test_a_thousand_publishes_cost_a_handful_of_commands(redis_server: RedisServer) -> None:
    app = Headrace(redis_server.url)
    topic = app.topic("notes", str)
    async with app:
        await topic.publish("first")
        redis_server.call("CONFIG", "RESETSTAT")
        await asyncio.gather(*(topic.publish(str(n)) for n in range(1000)))
        stats = redis_server.call("INFO", "commandstats").decode()
        line = next(line for line in stats.splitlines() if line.startswith("cmdstat_evalsha:"))
        calls = int(line.split("calls=")[1].split(",")[0])
        assert len(await topic.read(limit=2000)) == 1001
    assert calls <= 4
