"""Arguments that do not fit here go back while a worker may be there whom they fit."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
import pytest

from headrace import Headrace, Job, JobFailed, State, chain
from headrace.core.job import ids
from headrace.core.job.envelope import Overrides, encode_envelope
from headrace.core.job.history import decode_history
from headrace.core.job.ids import to_id
from headrace.core.job.parcel import Parcel
from headrace.core.workers import (
    COUNTS_ON,
    ENDED,
    WORKERS,
    KnownTasks,
    WorkerRecord,
    encode_record,
)
from headrace.errors import StoreUnavailable
from headrace.store.contract import JobSnapshot
from headrace.store.sqlite.store import SqliteStore
from headrace.testing import ManualClock
from headrace.worker.run.other_declarations import OtherDeclarations
from tests.tour.programs import other_program
from tests.worker.states import reach, until

OURS, THEIRS = b"ours", b"them"
LEASE = 30.0

# At the top level, as tasks that another process must import have to be.
elsewhere = Headrace("memory://", lease=0.6)


@elsewhere.task(name="render", run_in="process")
def render_as_before(page: int) -> str:
    return "before"


@elsewhere.task(run_in="process")
def paint(page: int) -> None: ...


def record(name: str = "other", mark: bytes = THEIRS, queues: Sequence[str] = ("mail",)) -> bytes:
    """The registration of a worker that declares one task, `send`."""
    tasks = KnownTasks.of({"send": mark})
    weights = dict.fromkeys(queues, 1)
    return encode_record(WorkerRecord(name, "host", 7, 1, weights, 10, "1", "3", 0, 1, tasks=tasks))


@pytest.fixture
def others(store: SqliteStore, clock: ManualClock) -> OtherDeclarations:
    return OtherDeclarations(store, clock.now_ms)


async def test_a_worker_with_another_declaration_counts_for_its_queues(
    store: SqliteStore, others: OtherDeclarations
) -> None:
    assert not await others.may_have("mail", "send", OURS)
    await store.kv_set(WORKERS, "like us", record("like us", OURS), ttl=LEASE)
    assert not await others.may_have("mail", "send", OURS)
    await store.kv_set(WORKERS, "other", record(), ttl=LEASE)
    assert await others.may_have("mail", "send", OURS)
    assert not await others.may_have("mail", "pay", OURS)
    assert not await others.may_have("print", "send", OURS)


async def test_a_worker_that_is_gone_counts_for_another_minute(
    store: SqliteStore, clock: ManualClock, others: OtherDeclarations
) -> None:
    await store.kv_set(WORKERS, "other", record(), ttl=LEASE)
    assert await others.may_have("mail", "send", OURS)
    clock.advance(COUNTS_ON - 1)
    assert await store.kv_all(WORKERS) == {}
    assert await others.may_have("mail", "send", OURS)
    clock.advance(2)
    assert not await others.may_have("mail", "send", OURS)


async def test_one_that_has_ended_counts_also_for_those_who_never_saw_it(
    store: SqliteStore, clock: ManualClock, others: OtherDeclarations
) -> None:
    await store.kv_set(ENDED, "other", record(), ttl=COUNTS_ON)
    clock.advance(COUNTS_ON - 1)
    assert await others.may_have("mail", "send", OURS)
    clock.advance(2)
    assert not await others.may_have("mail", "send", OURS)


async def test_a_registration_that_cannot_be_read_is_of_nobody(
    store: SqliteStore, others: OtherDeclarations
) -> None:
    for space in (WORKERS, ENDED):
        await store.kv_set(space, "odd", b"\xc1", ttl=LEASE)
    assert not await others.may_have("mail", "send", OURS)


async def test_a_store_that_does_not_say_is_no_reason_to_give_up(
    store: SqliteStore, others: OtherDeclarations, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(space: str) -> dict[str, bytes]:
        raise StoreUnavailable("away")

    monkeypatch.setattr(store, "kv_all", away)
    assert await others.may_have("mail", "send", OURS)


async def test_many_who_ask_share_a_look_that_began_after_all_had_asked(
    store: SqliteStore, others: OtherDeclarations, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, looks, go_on = store.kv_all, list[str](), asyncio.Event()

    async def slowly(space: str) -> Any:
        found = await read(space)
        looks.append(space)
        await go_on.wait()
        return found

    monkeypatch.setattr(store, "kv_all", slowly)
    early = asyncio.create_task(others.may_have("mail", "send", OURS))
    await until(lambda: looks)
    await store.kv_set(WORKERS, "other", record(), ttl=LEASE)
    late = [asyncio.create_task(others.may_have("mail", "send", OURS)) for _ in range(20)]
    await asyncio.sleep(0)
    go_on.set()
    assert not await early
    assert await asyncio.gather(*late) == [True] * 20
    assert looks == [WORKERS, ENDED] * 2


# Workers


@pytest.fixture
def store_url() -> str:
    return "memory://"


def old_send(app: Headrace, *, unique: bool = False) -> Any:
    @app.task(name="send", unique=unique)
    async def send(to: str) -> str:
        return "old"

    return send


def new_send(app: Headrace, *, unique: bool = False) -> Any:
    @app.task(name="send", unique=unique)
    async def send(to: str, language: str = "en") -> str:
        return f"new, in {language}"

    return send


async def seen(app: Headrace, job: Job[Any]) -> JobSnapshot:
    (found,) = await app.store.get("default", [to_id(job.id)], bodies=True)
    assert found is not None
    return found


def since_ms(found: JobSnapshot) -> int:
    return decode_history(found.history).unknown_since_ms


async def went_back(app: Headrace, job: Job[Any]) -> bool:
    return since_ms(await seen(app, job)) > 0


async def eventually(claim: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(60):
        while not await claim():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_a_batch_runs_what_fits_and_leaves_the_rest(app: Headrace) -> None:
    newer = await other_program(app)

    @app.task(name="send", batch=4, max_wait=0.05)
    async def send(items: list[int]) -> list[str]:
        return ["old"] * len(items)

    @newer.task(name="send", batch=4, max_wait=0.05)
    async def send_newly(items: list[str]) -> list[str]:
        return ["new"] * len(items)

    async with newer, app.worker(), newer.worker():
        calls = [send.call(1), send_newly.call("a"), send.call(2), send_newly.call("b")]
        jobs = await app.enqueue_many(calls)
        assert [await job.result(60) for job in jobs] == ["old", "new", "old", "new"]


async def test_a_flow_waits_for_a_step_that_goes_back(app: Headrace) -> None:
    newer = await other_program(app)
    send = old_send(app)

    @newer.task(name="send")
    async def send_newly(to: dict[str, str]) -> str:
        return to["name"]

    @newer.task
    async def find() -> dict[str, str]:
        return {"name": "ann"}

    async with newer, newer.worker(), app.worker():
        flow = await newer.enqueue(chain(find.call(), send_newly.call()))
        assert await flow.result(60) == "ann"
    assert await send("ann") == "old"


async def test_a_unique_job_that_goes_back_keeps_its_name(app: Headrace) -> None:
    newer = await other_program(app)
    old_send(app, unique=True)
    send = new_send(newer, unique=True)
    async with newer:
        await app.store.kv_set(WORKERS, "new", with_mark_of(send), ttl=60)
        async with app.worker():
            job = await send.enqueue("ann", language="fr")
            await eventually(lambda: went_back(newer, job))
            again = await send.enqueue("ann", language="fr")
            assert again.id == job.id
        async with newer.worker():
            assert await job.result(60) == "new, in fr"


def with_mark_of(task: Any, queue: str = "default") -> bytes:
    tasks = KnownTasks.of({task.name: task.signature.mark})
    return encode_record(
        WorkerRecord("new", "host", 7, 1, {queue: 1}, 10, "1", "3", 0, 1, tasks=tasks)
    )


async def test_a_job_that_goes_back_expires_in_time(app: Headrace) -> None:
    newer = await other_program(app)
    old_send(app)
    send = new_send(newer)
    async with newer:
        await app.store.kv_set(WORKERS, "new", with_mark_of(send), ttl=60)
        async with app.worker():
            job = await send.options(expires=0.3).enqueue("ann", language="fr")
            with pytest.raises(JobFailed) as caught:
                await job.result(60)
    assert caught.value.reason == "expired"


async def test_a_job_that_goes_back_can_be_cancelled_and_says_what_it_waits_for(
    app: Headrace, caplog: pytest.LogCaptureFixture
) -> None:
    newer = await other_program(app)
    old_send(app)
    send = new_send(newer)
    caplog.set_level(logging.WARNING, "headrace.worker")

    @app.fallback
    async def rescue(job: Any) -> None: ...

    async with newer:
        await app.store.kv_set(WORKERS, "new", with_mark_of(send), ttl=60)
        async with app.worker():
            job = await send.enqueue("ann", language="fr")
            await eventually(lambda: went_back(newer, job))
            why = await app.admin.why(job.id)
            assert "a worker that knows its task 'send', with these arguments" in why
            assert "it is dead if none does until" in why
            await job.cancel()
            await reach([job], State.CANCELLED)
    warned = [each.getMessage() for each in caplog.records]
    (line,) = (each for each in warned if "goes back" in each)
    assert "is dead (bad_arguments) if none knows it until" in line
    assert "there is no argument 'language': it takes send(to: str)" in line
    assert line.endswith("a worker that declares the task otherwise is there, or was a minute ago")


async def test_a_function_in_a_process_leaves_its_job_too() -> None:
    async with elsewhere:
        newer = await other_program(elsewhere)

        @newer.task(name="render", run_in="thread")
        def render_newly(page: int, colour: str = "none") -> str:
            return f"in {colour}"

        await elsewhere.store.kv_set(WORKERS, "new", with_mark_of(render_newly), ttl=60)
        async with elsewhere.worker(processes=1):
            job = await render_newly.enqueue(1, colour="red")
            assert await (await render_newly.enqueue(1)).result(60) == "before"
            await eventually(lambda: went_back(elsewhere, job))
            first = await seen(elsewhere, job)

            async def met_again() -> bool:
                return (await seen(elsewhere, job)).due_ms not in (None, first.due_ms)

            await eventually(met_again)
            assert since_ms(await seen(elsewhere, job)) == since_ms(first)
        async with newer.worker():
            assert await job.result(60) == "in red"
            assert (await job.info()).attempt == 1


async def test_a_process_gives_up_arguments_that_nobody_else_takes() -> None:
    async with elsewhere:
        newer = await other_program(elsewhere)

        @newer.task(name="paint")
        async def paint_newly(page: int, colour: str = "none") -> None: ...

        job = await paint_newly.enqueue(1, colour="red")
        async with elsewhere.worker(processes=1):
            with pytest.raises(JobFailed, match="there is no argument 'colour'") as caught:
                await job.result(60)
        assert caught.value.reason == "bad_arguments"
        assert (await job.info()).attempt == 1


async def test_a_function_in_a_process_leaves_a_job_by_a_codec_that_it_lacks() -> None:
    async with elsewhere:
        id = ids.new_id()
        envelope = encode_envelope(id, "paint", b"?", Overrides(content="application/x-odd"))
        await elsewhere.store.append("default", [Parcel(id, envelope)])
        job: Job[None] = elsewhere.job(ids.to_text(id))
        async with elsewhere.worker(processes=1):
            await eventually(lambda: went_back(elsewhere, job))
        await job.cancel()


async def test_a_worker_that_ends_leaves_its_declarations_for_a_minute(app: Headrace) -> None:
    send = new_send(app)
    async with app.worker() as worker:
        assert await app.store.kv_all(ENDED) == {}
    assert await app.store.kv_all(WORKERS) == {}
    (left,) = (await app.store.kv_all(ENDED)).values()
    found = msgspec.msgpack.decode(left, type=WorkerRecord)
    assert (found.name, found.queues) == (worker.name, {"default": 1})
    assert found.tasks == KnownTasks.of({"send": send.signature.mark})
    assert await app.admin.workers() == []
