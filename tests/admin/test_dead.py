"""Dead jobs: finding, sending again, forgetting."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from headrace import ConfigError, Headrace, JobNotFound, State
from headrace.admin.dead.dead_info import PAGE
from headrace.core.job.history import History
from tests.admin.burying import bury, envelope, one_attempt
from tests.admin.counting import counted


async def test_dead_jobs_come_the_latest_first_with_all_that_is_known(app: Headrace) -> None:
    (first,) = await bury(app, [envelope("send", "ann", 1)], reason="rejected")
    (second,) = await bury(app, [envelope("send", "bob", 2)], reason="crash_loop")
    found = await app.admin.dead("default")
    assert [info.id for info in found] == [second, first]
    info = found[1]
    assert (info.queue, info.task, info.reason) == ("default", "send", "rejected")
    assert (info.error_type, info.error_text) == ("ValueError", "no such user")
    assert info.arguments == ["ann", 1]
    assert info.died.tzinfo is not None
    assert [attempt.worker for attempt in info.attempts] == ["worker-1"]
    assert info.attempts[0].ended - info.attempts[0].started == timedelta(seconds=2.5)


async def test_filters_leave_what_fits_all_of_them(app: Headrace) -> None:
    await bury(app, [envelope("send")], reason="rejected")
    await bury(app, [envelope("load")], reason="crash_loop")
    (wanted,) = await bury(app, [envelope("send")], reason="crash_loop")
    found = await app.admin.dead("default", task="send", reason="crash_loop")
    assert [info.id for info in found] == [wanted]


async def test_filters_are_applied_through_all_pages(app: Headrace) -> None:
    wanted = await bury(app, [envelope("rare"), envelope("rare")])
    await bury(app, [envelope("common") for _ in range(PAGE + 20)])
    found = await app.admin.dead("default", task="rare")
    assert {info.id for info in found} == set(wanted)
    assert len(await app.admin.dead("default", limit=PAGE + 10)) == PAGE + 10


async def test_since_is_a_moment_or_how_long_ago(app: Headrace) -> None:
    await bury(app, [envelope()])
    admin = app.admin
    assert await admin.dead(since=timedelta(hours=1))
    assert await admin.dead(since=datetime.now(UTC) - timedelta(hours=1))
    assert not await admin.dead(since=datetime.now(UTC) + timedelta(hours=1))
    with pytest.raises(ConfigError, match="time zone"):
        await admin.dead(since=datetime(2020, 1, 1))


async def test_without_a_queue_all_queues_are_searched(app: Headrace) -> None:
    (first,) = await bury(app, [envelope()], queue="one")
    (second,) = await bury(app, [envelope()], queue="two")
    assert {info.id for info in await app.admin.dead()} == {first, second}
    assert len(await app.admin.dead(limit=1)) == 1
    assert (await app.admin.dead_job(second)).queue == "two"


async def test_bytes_that_are_no_job_can_be_looked_at(app: Headrace) -> None:
    (id,) = await bury(app, [b"\xc1 not an envelope"], reason="malformed")
    info = await app.admin.dead_job(id)
    assert (info.task, info.arguments) == (None, None)
    assert info.envelope == b"\xc1 not an envelope"


async def test_a_dead_job_without_any_attempt_still_has_a_time_of_death(app: Headrace) -> None:
    before = datetime.now(UTC) - timedelta(minutes=5)
    (id,) = await bury(app, [envelope()], history=History())
    async with counted(app) as calls:
        info = await app.admin.dead_job(id)
    assert not calls["dead"]
    assert info == (await app.admin.dead())[0]
    assert info.died > before
    assert (info.error_type, info.error_text, info.attempts) == ("", "", ())


async def test_a_job_that_is_not_dead_is_not_found(app: Headrace) -> None:
    @app.task
    async def send() -> None: ...

    job = await send.enqueue()
    for id in (job.id, "never-heard-of"):
        with pytest.raises(JobNotFound):
            await app.admin.dead_job(id)


async def test_an_id_is_found_dead_though_another_queue_knows_it_alive(app: Headrace) -> None:
    @app.task(queue="alive")
    async def send() -> None: ...

    await send.options(id="invoice-7").enqueue()
    await bury(app, [envelope(id="invoice-7")], queue="buried")
    assert (await app.admin.dead_job("invoice-7")).queue == "buried"
    assert await app.admin.replay("invoice-7") == 1


async def test_replay_by_id_sends_again_once(app: Headrace) -> None:
    first, second = await bury(app, [envelope(), envelope()], queue="mail")
    assert await app.admin.replay([first, first, "unknown"]) == 1
    assert await app.admin.replay([first]) == 0
    assert await app.job(first).status() is State.WAITING
    assert [info.id for info in await app.admin.dead("mail")] == [second]


async def test_replay_by_filter_goes_through_all_pages(app: Headrace) -> None:
    await bury(app, [envelope("send") for _ in range(PAGE + 30)], reason="crash_loop")
    await bury(app, [envelope("send") for _ in range(3)], reason="rejected")
    assert await app.admin.replay(queue="default", reason="crash_loop") == PAGE + 30
    counts = await app.admin.queue("default")
    assert (counts.waiting, counts.dead) == (PAGE + 30, 3)


async def test_purge_forgets(app: Headrace) -> None:
    first, second = await bury(app, [envelope("a"), envelope("b")])
    assert await app.admin.purge([first], "default") == 1
    assert await app.admin.purge(task="b", since=timedelta(hours=1)) == 1
    assert await app.admin.dead() == []
    with pytest.raises(JobNotFound):
        await app.job(second).status()


async def test_nothing_said_is_not_everything_meant(app: Headrace) -> None:
    await bury(app, [envelope()], history=one_attempt())
    with pytest.raises(ConfigError, match="say which"):
        await app.admin.purge()
    with pytest.raises(ConfigError, match="say which"):
        await app.admin.purge(search="")
    with pytest.raises(ConfigError, match="not both"):
        await app.admin.purge(["x"], reason="rejected")
    assert await app.admin.purge([]) == 0
    assert len(await app.admin.dead()) == 1


async def test_dead_jobs_are_found_by_a_text_in_their_last_error(app: Headrace) -> None:
    (wanted,) = await bury(app, [envelope()], history=one_attempt("connection REFUSED"))
    await bury(app, [envelope()], history=one_attempt("no such user"))
    await bury(app, [envelope()], history=History())
    admin = app.admin
    assert [info.id for info in await admin.dead(error="connection refused")] == [wanted]
    assert len(await admin.dead(error="valueerror")) == 2
    assert await admin.replay(error="refused") == 1
    assert await admin.purge(error="valueerror: no such") == 1
    assert len(await admin.dead()) == 1


async def test_until_is_a_moment_or_how_long_ago(app: Headrace) -> None:
    await bury(app, [envelope()])
    admin = app.admin
    assert not await admin.dead(until=timedelta(hours=1))
    assert await admin.dead(until=datetime.now(UTC) + timedelta(hours=1))
    assert await admin.dead(until=timedelta(seconds=-60), since=timedelta(hours=1))
    with pytest.raises(ConfigError, match="until must be a datetime with a time zone"):
        await admin.dead(until=datetime(2020, 1, 1))
    assert await admin.purge(until=timedelta(hours=1)) == 0


async def test_a_condition_that_does_not_exist_is_not_ignored(app: Headrace) -> None:
    await bury(app, [envelope()])
    with pytest.raises(TypeError, match="raeson"):
        await app.admin.purge(queue="default", raeson="rejected")  # type: ignore[call-arg]
    assert len(await app.admin.dead()) == 1


async def test_dead_jobs_are_searched_for_in_id_arguments_and_errors(app: Headrace) -> None:
    (ann,) = await bury(app, [envelope("send", "Ann")], history=one_attempt("refused"))
    (bob,) = await bury(app, [envelope("send", "bob", id="mail-7")], history=one_attempt("for ann"))
    admin = app.admin

    async def ids(text: str, *, arguments: bool = True) -> list[str]:
        return [info.id for info in await admin.dead(search=text, arguments=arguments)]

    assert await ids("ann") == [bob, ann]
    assert await ids("ann", arguments=False) == [bob]
    assert await ids("MAIL-7") == [bob]
    page = await admin.dead_page(search="refused")
    assert ([info.id for info in page.jobs], page.cursor, page.looked) == ([ann], "", 2)
    assert await admin.purge(search="bob", arguments=False) == 0
    assert await admin.replay(search="bob") == 1
    assert await admin.purge(search="ann") == 1
    with pytest.raises(ConfigError, match="say which dead jobs"):
        await admin.purge(arguments=False)


async def test_pages_of_dead_jobs_end_where_earlier_deaths_begin(app: Headrace) -> None:
    await bury(app, [envelope() for _ in range(3)])
    for since in (timedelta(hours=1), datetime(2000, 1, 1, tzinfo=UTC)):
        assert len((await app.admin.dead_page(since=since)).jobs) == 3
    page = await app.admin.dead_page("default", since=datetime.now(UTC) + timedelta(hours=1))
    assert (page.jobs, page.cursor) == ([], "")
    for options in ({"limit": 0}, {"scan": 0}):
        with pytest.raises(ConfigError, match=next(iter(options))):
            await app.admin.dead_page(**options)  # type: ignore[arg-type]
    for cursor in ("5", "waiting:default/5", "dead:other/5"):
        with pytest.raises(ConfigError, match=f"'{cursor}' is not a cursor"):
            await app.admin.dead_page("default", cursor=cursor)
