"""`app.admin.cancel()`: by id and by filter."""

from __future__ import annotations

import asyncio

import pytest

from headrace import ConfigError, Headrace, JobNotFound, State
from headrace.core.job.ids import to_id
from tests.admin.burying import bury, envelope


async def test_jobs_are_cancelled_by_id_in_every_state(app: Headrace) -> None:
    @app.task
    async def ship() -> None: ...

    first = await ship.options(key="one").enqueue()
    behind = await ship.options(key="one").enqueue()
    later = await ship.options(delay=60, queue="other").enqueue()
    report = await app.admin.cancel([first.id, behind.id, later.id, first.id])
    assert (report.cancelled, report.running, report.ended, report.unknown) == (3, 0, (), ())
    for job in (first, behind, later):
        assert await job.status() is State.CANCELLED


async def test_what_has_ended_and_what_is_unknown_is_reported_by_id(app: Headrace) -> None:
    @app.task
    async def ship() -> None: ...

    (dead,) = await bury(app, [envelope()])
    job = await ship.enqueue()
    report = await app.admin.cancel([job.id, dead, "never-heard-of"])
    assert (report.cancelled, report.ended, report.unknown) == (1, (dead,), ("never-heard-of",))


async def test_a_single_unknown_id_is_an_error_that_names_it(app: Headrace) -> None:
    for ids in ("never-heard-of", ["never-heard-of"]):
        with pytest.raises(JobNotFound, match="never-heard-of"):
            await app.admin.cancel(ids)


async def test_an_id_is_cancelled_where_it_lives_though_it_ended_elsewhere(app: Headrace) -> None:
    @app.task(queue="zoo")
    async def ship() -> None: ...

    await bury(app, [envelope(id="invoice-7")], queue="buried")
    await ship.options(id="invoice-7").enqueue()
    assert (await app.admin.cancel("invoice-7")).cancelled == 1
    assert (await app.admin.queue("zoo")).waiting == 0
    assert (await app.admin.queue("buried")).dead == 1


async def test_a_running_job_is_asked_to_end(app: Headrace) -> None:
    started = asyncio.Event()

    @app.task
    async def hold() -> None:
        started.set()
        await asyncio.Event().wait()

    async with app.worker():
        job = await hold.enqueue()
        await started.wait()
        report = await app.admin.cancel(job.id)
        assert (report.cancelled, report.running) == (0, 1)
        async for update in job.watch(poll=0.05):
            last = update.state
        assert last is State.CANCELLED


async def test_all_that_fit_are_cancelled_and_no_others(app: Headrace) -> None:
    @app.task
    async def ship(to: str) -> None: ...

    @app.task
    async def bill(to: str) -> None: ...

    await ship.enqueue("ann")
    await ship.options(delay=60).enqueue("ann")
    kept = [await ship.enqueue("bob"), await bill.enqueue("ann")]
    report = await app.admin.cancel(task="ship", search="ANN")
    assert (report.cancelled, report.ended) == (2, ())
    assert {job.id for job in (await app.admin.jobs("default")).jobs} == {job.id for job in kept}
    assert (await app.admin.cancel(queue="default", state="waiting")).cancelled == 2


async def test_a_filter_goes_through_all_pages_of_every_state(app: Headrace) -> None:
    @app.task
    async def ship(number: int) -> None: ...

    calls = [ship.call(n) for n in range(1500)]
    calls += [ship.options(delay=60 + n % 7).call(n) for n in range(2500)]
    calls += [ship.options(key="one").call(n) for n in range(1200)]
    await app.enqueue_many(calls)
    assert (await app.admin.cancel(queue="default")).cancelled == len(calls)
    info = await app.admin.queue("default")
    assert (info.waiting, info.scheduled, info.blocked) == (0, 0, 0)


async def test_cancelling_a_queue_lets_none_of_a_lane_go(app: Headrace) -> None:
    ran: list[int] = []

    @app.task
    async def ship(number: int) -> None:
        ran.append(number)

    await app.admin.pause("default")
    jobs = await app.enqueue_many([ship.options(key="one").call(n) for n in range(20)])
    await app.admin.cancel(queue="default")
    async with app.worker():
        await app.admin.resume("default")
        after = await ship.enqueue(99)
        await after.result(timeout=10)
    assert ran == [99]
    assert {await job.status() for job in jobs} == {State.CANCELLED}


async def test_all_jobs_of_a_flow_are_cancelled(app: Headrace) -> None:
    @app.task
    async def first() -> None: ...

    @app.task(queue="other")
    async def last() -> None: ...

    begin = first.call()
    flow = await app.enqueue(last.call().after(begin))
    alone = await first.enqueue()
    report = await app.admin.cancel(flow=flow.id)
    assert report.cancelled == 2
    assert await flow.status() is State.CANCELLED
    assert await alone.status() is State.WAITING


async def test_nothing_said_is_not_everything_meant(app: Headrace) -> None:
    @app.task
    async def ship() -> None: ...

    job = await ship.enqueue()
    with pytest.raises(ConfigError, match="say which jobs"):
        await app.admin.cancel()
    with pytest.raises(ConfigError, match="say which jobs"):
        await app.admin.cancel(search="")
    with pytest.raises(ConfigError, match="not both"):
        await app.admin.cancel([job.id], task="ship")
    for state in ("done", "dead", "cancelled", "flying"):
        with pytest.raises(ConfigError, match=state):
            await app.admin.cancel(queue="default", state=state)
    assert (await app.admin.cancel([])).cancelled == 0
    assert await job.status() is State.WAITING


@pytest.mark.parametrize("shards", [1, 2])
async def test_a_delayed_event_is_taken_back_before_it_is_due(app: Headrace, shards: int) -> None:
    notes = app.topic("notes", str, key=lambda note: note, shards=shards)
    seen: asyncio.Queue[str] = asyncio.Queue()

    @notes.subscribe("audit")
    async def audit(note: str) -> None:
        seen.put_nowait(note)

    back = [await notes.publish(f"back {number}", delay=0.5) for number in range(3)]
    await notes.publish("kept", delay=0.5)
    report = await app.admin.cancel([*back, "never-heard-of"])
    assert (report.cancelled, report.unknown) == (3, ("never-heard-of",))
    await notes.publish("back 0", id=back[0])
    with pytest.raises(JobNotFound):
        await app.admin.job(back[1])
    async with app.worker(), asyncio.timeout(20):
        assert sorted([await seen.get(), await seen.get()]) == ["back 0", "kept"]
    assert seen.empty()
    assert len(await notes.read()) == 2


async def test_an_event_in_the_log_is_not_taken_from_its_groups(app: Headrace) -> None:
    notes = app.topic("notes", str)

    @notes.subscribe("audit")
    async def audit(note: str) -> None: ...

    event = await notes.publish("a note")
    with pytest.raises(ConfigError, match="still in its topic's log"):
        await app.admin.cancel(event)
    # Not even if it was added to the log in the moment after it was seen to be scheduled.
    assert await app.store.cancel("@notes", [to_id(event)]) == [None]
    assert [each.id for each in await notes.read()] == [event]
    assert (await app.store.groups(["@notes"]))["@notes"][0].behind == 1


async def test_a_job_that_is_sent_while_it_is_looked_for_is_cancelled(
    app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    @app.task
    async def wait() -> None: ...

    logs = app.store.logs

    async def logs_after_a_send() -> list[str]:
        await wait.options(id="late").enqueue()
        return await logs()

    monkeypatch.setattr(app.store, "logs", logs_after_a_send)
    report = await app.admin.cancel("late")
    assert (report.cancelled, report.unknown) == (1, ())
