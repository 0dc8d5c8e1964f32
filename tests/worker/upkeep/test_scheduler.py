"""The scheduler's step, on every store: one job for each tick, whatever happens in between."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from headrace import Call, Headrace, Job, Middleware, ScheduleNotFound
from headrace.client.schedules import SPACE, Schedules
from headrace.core.job import ids
from headrace.core.job.parcel import Parcel
from headrace.core.job.state import State
from headrace.core.schedule.schedule import decode_record, encode_record
from headrace.errors import StoreMismatch, StoreUnavailable
from headrace.middleware import Send
from headrace.store.contract import Store
from headrace.worker.upkeep import scheduler as scheduling
from headrace.worker.upkeep.scheduler import Scheduler

NOON = 1_780_315_200_000
"""2026-06-01 12:00 UTC."""
QUEUE = "default"


class Moment:
    """What the store says the time is."""

    def __init__(self) -> None:
        self.ms = NOON

    def advance(self, seconds: float) -> None:
        self.ms += round(seconds * 1000)

    async def __call__(self) -> int:
        return self.ms


class Killed(BaseException):
    """The process ends here."""


@pytest.fixture
def moment(app: Headrace, monkeypatch: pytest.MonkeyPatch) -> Moment:
    """Moves the time by which schedules are fired."""
    moment = Moment()
    monkeypatch.setattr(app.store, "time_ms", moment)
    return moment


def worker(app: Headrace, name: str = "worker") -> Scheduler:
    return Scheduler(app.store, app.schedules, name)


async def steps(*schedulers: Scheduler) -> None:
    """One look by each, and the second of those to whom another was first."""
    for _ in range(2):
        await asyncio.gather(*(scheduler.step() for scheduler in schedulers))


async def sent(app: Headrace, queue: str = QUEUE) -> list[str]:
    page = await app.store.browse(queue, State.WAITING)
    return sorted(ids.to_text(job_id) for job_id in page.job_ids)


def at(name: str, *seconds: float) -> list[str]:
    """The ids of the jobs that are due so long after noon."""
    moments = [datetime.fromtimestamp(NOON / 1000 + after, UTC) for after in seconds]
    return [f"{name}@{moment.replace(tzinfo=None).isoformat()}Z" for moment in moments]


def report(app: Headrace) -> Any:
    @app.task
    async def report(month: int = 0) -> None: ...

    return report


async def broken(app: Headrace, name: str, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the definition of a schedule behind its back."""
    data = (await app.store.kv_all(SPACE))[name]
    record = decode_record(data)
    body = msgspec.msgpack.decode(record.body)
    change(body)
    other = msgspec.structs.replace(record, body=msgspec.msgpack.encode(body))
    await app.store.kv_set(SPACE, name, encode_record(other))


async def test_each_tick_is_one_job_however_many_workers_fire(
    app: Headrace, moment: Moment
) -> None:
    await app.schedules.upsert("beat", report(app).call(), every=10)
    workers = [worker(app, f"worker-{n}") for n in range(3)]
    for _ in range(5):
        await steps(*workers)
        moment.advance(10)
    assert await sent(app) == at("beat", 10, 20, 30, 40)
    schedule = await app.schedules.get("beat")
    assert (schedule.fired, schedule.problem) == (4, "")
    assert schedule.last_tick == datetime(2026, 6, 1, 12, 0, 40, tzinfo=UTC)
    assert schedule.next_tick == datetime(2026, 6, 1, 12, 1, tzinfo=UTC)


@pytest.mark.parametrize("verb", ["kv_set", "append"])
@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
async def test_a_worker_killed_while_it_fires_makes_no_second_job_and_loses_none(
    app: Headrace, moment: Moment, monkeypatch: pytest.MonkeyPatch, verb: str, before: bool
) -> None:
    await app.schedules.upsert("beat", report(app).call(), every=10, limit=2)
    moment.advance(10)
    right = getattr(app.store, verb)

    async def killed(*args: Any, **kwargs: Any) -> Any:
        if args[0] == "tickets":
            return await right(*args, **kwargs)
        if not before:
            await right(*args, **kwargs)
        raise Killed

    monkeypatch.setattr(app.store, verb, killed)
    with pytest.raises(Killed):
        await worker(app, "the one").step()
    monkeypatch.setattr(app.store, verb, right)
    another = worker(app, "another")
    await steps(another)
    assert await sent(app) == at("beat", 10)
    for _ in range(3):
        moment.advance(10)
        await steps(another)
    assert await sent(app) == at("beat", 10, 20), "the limit counts what the dead one fired"


async def test_a_tick_that_one_worker_began_is_fired_by_the_next_however_late(
    app: Headrace, moment: Moment, monkeypatch: pytest.MonkeyPatch
) -> None:
    await app.schedules.upsert("beat", report(app).call(), every=10)
    moment.advance(10)

    async def killed(*args: Any, **kwargs: Any) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(app.store, "append", killed)
        with pytest.raises(Killed):
            await worker(app, "the one").step()
    moment.advance(1000)
    another = worker(app, "another")
    await steps(another)
    await steps(another)
    assert await sent(app) == at("beat", 10, 1010)


async def test_an_answer_that_was_lost_makes_no_second_job(
    app: Headrace, moment: Moment, monkeypatch: pytest.MonkeyPatch
) -> None:
    await app.schedules.upsert("beat", report(app).call(), every=10)
    moment.advance(10)
    right = app.store.append

    async def lost(*args: Any, **kwargs: Any) -> None:
        await right(*args, **kwargs)
        raise StoreUnavailable("the answer was lost", sent=True)

    scheduler = worker(app)
    with monkeypatch.context() as patched:
        patched.setattr(app.store, "append", lost)
        with pytest.raises(StoreUnavailable):
            await scheduler.step()
    await steps(scheduler)
    assert await sent(app) == at("beat", 10)
    assert (await app.schedules.get("beat")).fired == 1


@pytest.mark.parametrize(
    ("missed", "fired"), [("skip", []), ("once", [600]), ("all", [200, 400, 600])]
)
async def test_after_no_worker_ran_for_a_while(
    app: Headrace, moment: Moment, missed: Any, fired: list[float]
) -> None:
    await app.schedules.upsert("beat", report(app).call(), every=200, missed=missed)
    moment.advance(700)
    await steps(worker(app, "one"), worker(app, "two"))
    assert await sent(app) == at("beat", *fired)
    moment.advance(100)
    await steps(worker(app, "three"))
    assert await sent(app) == at("beat", *fired, 800)


async def test_too_many_missed_ticks_are_reported(
    app: Headrace, moment: Moment, caplog: pytest.LogCaptureFixture
) -> None:
    await app.schedules.upsert("beat", report(app).call(), every=1, missed="all")
    moment.advance(5000)
    await steps(worker(app))
    assert (await app.store.count(QUEUE)).waiting == 1000
    assert "'beat' missed over 1000 ticks" in caplog.text


async def test_a_paused_schedule_does_not_fire_and_makes_up_for_nothing(
    app: Headrace, moment: Moment
) -> None:
    await app.schedules.upsert("beat", report(app).call(), every=10, missed="all")
    scheduler = worker(app)
    assert (await app.schedules.pause("beat")).paused
    moment.advance(25)
    await steps(scheduler)
    schedule = await app.schedules.resume("beat")
    assert (schedule.paused, schedule.fired) == (False, 0)
    await steps(scheduler)
    assert await sent(app) == []
    moment.advance(5)
    await steps(scheduler)
    assert await sent(app) == at("beat", 30)


async def test_a_removed_schedule_fires_no_more(app: Headrace, moment: Moment) -> None:
    await app.schedules.upsert("beat", report(app).call(), every=10)
    scheduler = worker(app)
    await steps(scheduler)
    await app.schedules.remove("beat")
    moment.advance(10)
    await steps(scheduler)
    assert await sent(app) == []
    with pytest.raises(ScheduleNotFound, match="'beat'"):
        await app.schedules.remove("beat")


async def test_after_its_limit_or_end_a_schedule_stays_listed_as_ended(
    app: Headrace, moment: Moment
) -> None:
    call, end = report(app).call(), datetime(2026, 6, 1, 12, 0, 20, tzinfo=UTC)
    await app.schedules.upsert("thrice", call, every=10, limit=3)
    await app.schedules.upsert("until", call, every=10, end=end)
    scheduler = worker(app)
    for _ in range(6):
        await steps(scheduler)
        moment.advance(10)
    assert await sent(app) == at("thrice", 10, 20, 30) + at("until", 10, 20)
    assert [
        (schedule.name, schedule.fired, schedule.ended, schedule.next_tick)
        for schedule in await app.schedules.list()
    ] == [("thrice", 3, True, None), ("until", 2, True, None)]


async def test_a_changed_schedule_begins_anew_and_stays_paused(
    app: Headrace, moment: Moment
) -> None:
    call = report(app).call()
    await app.schedules.upsert("beat", call, every=10, limit=1)
    scheduler = worker(app)
    moment.advance(10)
    await steps(scheduler)
    assert (await app.schedules.upsert("beat", call, every=10, limit=1)).ended
    again = await app.schedules.upsert("beat", call, every=20, limit=1)
    assert (again.fired, again.ended) == (0, False)
    moment.advance(10)
    await steps(scheduler)
    assert await sent(app) == at("beat", 10, 20)
    await app.schedules.pause("beat")
    assert (await app.schedules.upsert("beat", call, every=30)).paused


async def test_a_schedule_that_starts_later_waits(app: Headrace, moment: Moment) -> None:
    start = datetime(2026, 6, 1, 12, 0, 25, tzinfo=UTC)
    await app.schedules.upsert("beat", report(app).call(), every=10, start=start)
    scheduler = worker(app)
    for _ in range(5):
        await steps(scheduler)
        moment.advance(5)
    assert await sent(app) == []
    await steps(scheduler)
    assert await sent(app) == at("beat", 25)


async def test_broken_schedules_are_reported_once_and_do_not_stop_the_others(
    app: Headrace,
    moment: Moment,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    call = report(app).call()
    for name in ("a-zone", "b-body", "c-cron", "d-queue", "good"):
        await app.schedules.upsert(name, call, cron="* * * * *", timezone="Europe/Berlin")
    await app.store.kv_set(SPACE, "e-bytes", b"\xc1 is nothing")
    await broken(app, "a-zone", lambda body: body["cadence"].update(z="Mars/Olympus"))
    await broken(app, "b-body", dict.clear)
    await broken(app, "c-cron", lambda body: body["cadence"].update(c="61 * * * *"))
    await broken(app, "d-queue", lambda body: body.update(queue="bad"))
    right = app.store.append

    async def append(queue: str, parcels: list[Parcel], **options: Any) -> Any:
        if queue == "bad":
            raise StoreMismatch("the key is of another type")
        return await right(queue, parcels, **options)

    monkeypatch.setattr(app.store, "append", append)
    scheduler = worker(app)
    for _ in range(3):
        await steps(scheduler)
        moment.advance(60)
    assert await sent(app) == at("good", 60, 120)
    problems = {schedule.name: schedule.problem for schedule in await app.schedules.list()}
    assert problems.pop("good") == ""
    for name, text in {
        "a-zone": "Mars/Olympus",
        "b-body": "definition",
        "c-cron": "61",
        "d-queue": "another type",
        "e-bytes": "not a schedule",
    }.items():
        assert text in problems[name]
        assert caplog.text.count(f"schedule {name!r} does not fire") == 1


async def test_a_schedule_that_was_broken_fires_again_once_it_is_not(
    app: Headrace, moment: Moment, monkeypatch: pytest.MonkeyPatch
) -> None:
    await app.schedules.upsert("beat", report(app).call(), every=10)

    async def append(*args: Any, **options: Any) -> Any:
        raise StoreMismatch("the key is of another type")

    scheduler = worker(app)
    moment.advance(10)
    with monkeypatch.context() as patched:
        patched.setattr(app.store, "append", append)
        await steps(scheduler)
    assert (await app.schedules.get("beat")).fired == 0
    moment.advance(10)
    await steps(scheduler)
    schedule = await app.schedules.get("beat")
    assert (schedule.fired, schedule.problem) == (1, "")
    assert await sent(app) == at("beat", 20)


async def test_one_queue_that_cannot_be_reached_does_not_stop_the_others(
    app: Headrace, moment: Moment, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = report(app)
    await app.schedules.upsert("away", task.options(queue="away").call(), every=10)
    await app.schedules.upsert("here", task.call(), every=10)
    right = app.store.append

    async def append(queue: str, parcels: list[Parcel], **options: Any) -> Any:
        if queue == "away":
            raise StoreUnavailable("its node is down")
        return await right(queue, parcels, **options)

    scheduler = worker(app)
    moment.advance(10)
    with monkeypatch.context() as patched:
        patched.setattr(app.store, "append", append)
        with pytest.raises(StoreUnavailable):
            await scheduler.step()
    assert await sent(app) == at("here", 10)
    await steps(scheduler)
    assert await sent(app, "away") == at("away", 10)


async def test_what_no_workers_code_declares_any_more_does_not_fire(
    app: Headrace, moment: Moment
) -> None:
    app.every(10, name="beat")(report(app))
    await steps(worker(app))
    newer = Scheduler(app.store, Schedules(app), "newer")
    await app.schedules.upsert("made", app.tasks["report"].call(), every=10)
    moment.advance(10)
    await steps(newer)
    assert await sent(app) == at("made", 10)
    await steps(worker(app))
    assert await sent(app) == at("beat", 10) + at("made", 10)


async def test_what_is_declared_is_written_only_if_it_differs(
    app: Headrace, moment: Moment, monkeypatch: pytest.MonkeyPatch
) -> None:
    app.every(10, name="beat", limit=5)(report(app))
    await steps(worker(app))
    moment.advance(10)
    await steps(worker(app))
    await app.schedules.pause("beat")
    written: list[str] = []
    right = app.store.kv_set

    async def note(space: str, name: str, *args: Any, **options: Any) -> bool:
        written.append(space)
        return await right(space, name, *args, **options)

    monkeypatch.setattr(app.store, "kv_set", note)
    await steps(worker(app, "restarted"))
    schedule = await app.schedules.get("beat")
    assert SPACE not in written
    assert (schedule.fired, schedule.paused) == (1, True)


async def test_a_declared_schedule_can_be_paused_before_any_worker_ran(
    app: Headrace, moment: Moment
) -> None:
    app.every(10, name="beat")(report(app))
    assert [schedule.name for schedule in await app.schedules.list()] == ["beat"]
    await app.schedules.pause("beat")
    moment.advance(20)
    await steps(worker(app))
    assert await sent(app) == []


async def test_a_worker_that_is_not_the_first_waits_and_is_then_let_through(
    app: Headrace, moment: Moment
) -> None:
    await app.schedules.upsert("beat", report(app).call(), every=10)
    one, two = worker(app, "one"), worker(app, "two")
    moment.advance(10)
    await one.step()
    # What the first one does not know of, because it was there a moment too early.
    await app.schedules.upsert("other", app.tasks["report"].call(), every=1)
    moment.advance(1)
    assert await two.step() == scheduling._TICKET
    assert await sent(app) == at("beat", 10)
    await two.step()
    assert await sent(app) == at("beat", 10) + at("other", 11)


class Counting:
    """A store that notes what it is asked."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Any:
        self.asked.append(name)
        return getattr(self._store, name)


async def test_without_schedules_a_step_is_one_read_and_a_long_rest(app: Headrace) -> None:
    store = Counting(app.store)
    scheduler = Scheduler(store, Schedules(app), "worker")
    assert await scheduler.step() >= 5
    assert store.asked == ["kv_all"]


async def test_a_new_schedule_wakes_a_scheduler_that_rests(
    app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduling, "_POLL", 3600.0)
    fired = asyncio.Event()
    right = app.store.append

    async def append(*args: Any, **options: Any) -> Any:
        fired.set()
        return await right(*args, **options)

    monkeypatch.setattr(app.store, "append", append)
    scheduler = worker(app)
    await scheduler.listen()
    running = asyncio.create_task(scheduler.run())
    try:
        await asyncio.sleep(0.05)
        await app.schedules.upsert("beat", report(app).call(), every=0.1)
        async with asyncio.timeout(60):
            await fired.wait()
    finally:
        scheduler.stop()
        await running
        await scheduler.close()


async def test_the_rest_is_until_the_next_tick_and_not_longer_than_signals_may_be_lost(
    app: Headrace, moment: Moment
) -> None:
    await app.schedules.upsert("beat", report(app).call(), every=10)
    scheduler = worker(app)
    moment.advance(8)
    assert 0 < await scheduler.step() <= 2
    moment.advance(2)
    assert 4 < await scheduler.step() <= 5
    assert await sent(app) == at("beat", 10)


async def test_a_store_that_is_away_is_waited_for(
    app: Headrace,
    moment: Moment,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    app.every(10, name="beat")(report(app))
    scheduler = worker(app)

    async def away(*args: Any) -> Any:
        raise StoreUnavailable("it is down")

    with monkeypatch.context() as patched:
        patched.setattr(app.store, "kv_all", away)
        with pytest.raises(StoreUnavailable):
            await scheduler.step()
    await steps(scheduler)
    assert (await app.schedules.get("beat")).declared
    assert not [entry for entry in caplog.records if entry.levelno >= logging.ERROR]


async def test_schedules_in_code_come_back_when_the_store_was_emptied(
    app: Headrace, moment: Moment
) -> None:
    @app.every(60)
    async def tick() -> None: ...

    scheduler = worker(app)
    await steps(scheduler)
    for space in (SPACE, "scheduler"):
        for name in await app.store.kv_all(space):
            await app.store.kv_set(space, name, None)
    await steps(scheduler)
    assert "tick" in await app.store.kv_all(SPACE)


async def test_a_schedule_in_code_that_someone_removed_stays_away(
    app: Headrace, moment: Moment
) -> None:
    @app.every(60)
    async def tick() -> None: ...

    scheduler = worker(app)
    await steps(scheduler)
    await app.schedules.remove("tick")
    await steps(scheduler)
    assert await app.store.kv_all(SPACE) == {}


# Through send middleware


class Around(Middleware):
    """Sends each call as often as it is told, changed by a function."""

    def __init__(self, times: int = 1, change: Callable[[Call[Any]], Call[Any]] | None = None):
        self.times = times
        self.change = change or (lambda call: call)
        self.jobs: list[str] = []
        self.trouble: Exception | None = None

    async def send(self, call: Call[Any], send: Send) -> Job[Any]:
        if self.trouble is not None:
            raise self.trouble
        for _ in range(self.times):
            job = await send(self.change(call))
            self.jobs.append(job.id)
        return job


async def test_a_tick_that_middleware_sends_twice_is_one_job(app: Headrace, moment: Moment) -> None:
    around = Around(times=2)
    app.middleware(around)
    app.every(10, name="beat")(report(app))
    scheduler = worker(app)
    await steps(scheduler)
    moment.advance(10)
    await steps(scheduler)
    assert await sent(app) == at("beat", 10)
    assert around.jobs == at("beat", 10) * 2


async def test_a_tick_keeps_its_id_and_its_constraints_whatever_middleware_sends(
    app: Headrace, moment: Moment
) -> None:
    task = report(app)
    other = app.task(name="other")(report_nothing)
    renamed = Around(
        change=lambda call: call.with_options(call.options.changed(id="mine", headers={"a": "b"}))
    )
    app.middleware(renamed)
    await app.schedules.upsert("keyed", task.options(priority=3).call(), every=10)
    scheduler = worker(app)
    await steps(scheduler)
    moment.advance(10)
    await steps(scheduler)
    renamed.change = lambda call: other.call()
    moment.advance(10)
    await steps(scheduler)
    assert await sent(app) == at("keyed", 10, 20)
    first, second = [await app.job(id).info() for id in at("keyed", 10, 20)]
    assert (first.task, second.task) == (task.name, "other")
    detail = await app.admin.job(at("keyed", 10)[0])
    assert detail.headers == {"a": "b"}
    assert detail.priority == 3


async def beating(app: Headrace) -> tuple[Scheduler, Around]:
    """A scheduler that has begun a beat of ten seconds, and the middleware that its ticks pass."""
    around = Around()
    app.middleware(around)
    app.every(10, name="beat")(report(app))
    scheduler = worker(app)
    await steps(scheduler)
    return scheduler, around


async def test_a_middleware_that_raises_refuses_the_tick_and_no_other(
    app: Headrace, moment: Moment
) -> None:
    scheduler, around = await beating(app)
    around.trouble = PermissionError("not on a Monday")
    moment.advance(10)
    await steps(scheduler)
    refused = await app.schedules.get("beat")
    assert (refused.fired, refused.problem) == (0, "not on a Monday")
    around.trouble = None
    moment.advance(10)
    await steps(scheduler)
    assert await sent(app) == at("beat", 20)
    assert (await app.schedules.get("beat")).problem == ""


async def test_a_tick_waits_for_a_store_that_middleware_cannot_reach(
    app: Headrace, moment: Moment
) -> None:
    scheduler, around = await beating(app)
    around.trouble = StoreUnavailable("away")
    moment.advance(10)
    with pytest.raises(StoreUnavailable):
        await scheduler.step()
    around.trouble = None
    await steps(scheduler)
    assert await sent(app) == at("beat", 10)


async def test_run_now_goes_through_middleware(app: Headrace) -> None:
    around = Around(change=lambda call: call.with_headers({"by": "hand"}))
    app.middleware(around)
    app.every(10, name="beat")(report(app))
    job = await app.schedules.run_now("beat")
    assert around.jobs == [job.id]
    assert (await app.admin.job(job.id)).headers == {"by": "hand"}


async def report_nothing() -> None: ...
