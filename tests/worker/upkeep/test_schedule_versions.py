"""Two versions of a program declare one schedule: the newer one holds, on every store."""

from __future__ import annotations

from typing import Any

import pytest

from headrace import Headrace
from headrace.core.job import ids
from headrace.core.schedule.schedule import decode_record, encode_record, tick_id
from headrace.worker.upkeep.scheduler import Scheduler
from tests.tour.programs import other_program


class Killed(BaseException):
    """The process ends here."""


class Version:
    """A version of a program, and its workers."""

    def __init__(self, app: Headrace, word: str) -> None:
        self.app, self.word, self.seconds = app, word, 0.0

    def every(self, seconds: float) -> Version:
        @self.app.every(seconds, name="beat", args=[self.word])
        @self.app.task(name="beat")
        async def beat(word: str) -> None: ...

        return self

    def started(self) -> Scheduler:
        return Scheduler(self.app.store, self.app.schedules, self.word, lambda: self.seconds)

    async def gone(self) -> None:
        """None of its workers has run for long."""
        await self.app.store.kv_set("declarations", self.word, None)


async def every(app: Headrace) -> float | None:
    return (await app.schedules.get("beat")).every


@pytest.fixture
async def old(app: Headrace) -> Version:
    return Version(app, "old").every(100)


@pytest.fixture
async def new(app: Headrace) -> Version:
    return Version(await other_program(app), "new").every(200)


async def test_the_version_that_came_later_holds_however_often_others_start(
    app: Headrace, old: Version, new: Version, caplog: pytest.LogCaptureFixture
) -> None:
    await old.started().step()
    await app.schedules.pause("beat")
    async with new.app:
        await new.started().step()
        for version in (old, new, old, old, new):
            worker = version.started()
            await worker.step()
            await worker.close()
            assert await every(app) == 200
    schedule = await app.schedules.get("beat")
    assert (schedule.paused, schedule.fired) == (True, 0)
    assert "schedule 'beat' stays as a newer version of this program declares it" in caplog.text


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("number", range(3))
async def test_a_worker_that_dies_while_it_declares_leaves_the_rest_to_the_next(
    app: Headrace, old: Version, new: Version, number: int, before: bool
) -> None:
    """At its note, at the record, or at the trace that schedules were declared."""
    await old.started().step()
    async with new.app:
        write, writes = new.app.store.kv_set, iter(range(100))

        async def die(*args: Any, **options: Any) -> bool:
            at = next(writes)
            if at == number and before:
                raise Killed
            done = await write(*args, **options)
            if at == number:
                raise Killed
            return done

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(new.app.store, "kv_set", die)
            with pytest.raises(Killed):
                await new.started().step()
        await old.started().step()
        await new.started().step()
        await old.started().step()
        assert await every(app) == 200


async def test_a_newer_version_that_is_gone_for_a_while_gives_way(
    app: Headrace, old: Version, new: Version
) -> None:
    running = old.started()
    await running.step()
    async with new.app:
        await new.started().step()
        old.seconds += 61
        await running.step()
        assert await every(app) == 200
        await new.gone()
        await running.step()
        assert await every(app) == 200, "it looks once a minute"
        old.seconds += 61
        await running.step()
        assert await every(app) == 100
        # Now the other one is the one that was replaced, until no worker of this one is left.
        await new.started().step()
        assert await every(app) == 100
        await old.gone()
        await new.started().step()
        assert await every(app) == 200


async def test_a_schedule_that_the_newer_version_lacks_is_fired_by_the_old_one(
    app: Headrace, old: Version
) -> None:
    await old.started().step()
    newer = await other_program(app)

    @newer.every(50, name="other")
    async def other() -> None: ...

    async with newer:
        worker = Scheduler(newer.store, newer.schedules, "new")
        await worker.step()
        assert [each.name for each in await app.schedules.list()] == ["beat", "other"]
        assert await every(app) == 100


async def test_one_that_people_removed_is_declared_by_the_next_that_starts(
    app: Headrace, old: Version, new: Version
) -> None:
    await old.started().step()
    async with new.app:
        await new.started().step()
        await app.schedules.remove("beat")
        await old.started().step()
        assert await every(app) == 100


async def test_a_record_remembers_a_few_declarations(app: Headrace) -> None:
    for number in range(30):
        newer = Version(await other_program(app), f"v{number}").every(100 + number)
        async with newer.app:
            await newer.started().step()
    record = decode_record((await app.store.kv_all("schedules"))["beat"])
    assert len(record.replaced) == 20


async def test_a_tick_whose_worker_died_is_fired_although_a_newer_version_came(
    app: Headrace, old: Version, new: Version
) -> None:
    await old.started().step()
    record = decode_record((await app.store.kv_all("schedules"))["beat"])
    tick = record.next_ms()
    assert tick is not None
    # What a worker leaves that dies before it has sent the job of the tick.
    reserved, _ = record.reserve(tick)
    await app.store.kv_set("schedules", "beat", encode_record(reserved))
    async with new.app:
        await new.started().step()
        (job,) = (await app.admin.jobs()).jobs
        assert job.id == ids.to_text(tick_id("beat", tick))
        assert (await app.admin.job(job.id)).arguments == {"word": "old"}
        now = decode_record((await app.store.kv_all("schedules"))["beat"])
        assert (now.reserved, now.reserved_by, now.fired) == ((), b"", 0)
        assert await every(app) == 200


async def test_the_newer_version_holds_after_a_command_too(
    app: Headrace, old: Version, new: Version
) -> None:
    running = old.started()
    await running.step()
    async with new.app:
        await new.started().step()
        other = await other_program(app)

        @other.task(name="beat")
        async def beat(word: str) -> None: ...

        async with other:
            await other.schedules.upsert("beat", beat.call("by hand"), every=300)
        old.seconds += 61
        await running.step()
        await old.started().step()
        assert await every(app) == 300
        await new.started().step()
        await old.started().step()
        assert await every(app) == 200
