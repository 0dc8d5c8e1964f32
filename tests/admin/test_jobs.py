"""`app.admin.jobs()`, `job()` and `log()`: finding jobs and looking at them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest

from headrace import ConfigError, Context, Headrace, JobNotFound, State
from headrace.core.job.envelope import encode_envelope
from headrace.core.job.ids import new_id, to_text
from headrace.core.job.parcel import Parcel
from tests.admin.burying import bury, envelope


async def test_a_list_says_what_is_known_of_each_job(app: Headrace) -> None:
    @app.task(queue="mail")
    async def send(to: str) -> None: ...

    plain = await send.enqueue("ann")
    urgent = await send.options(priority=7, key="ann").enqueue("ann")
    behind = await send.options(key="ann").enqueue("ann")
    later = await send.options(delay=60).enqueue("ann")
    found = {job.id: job for job in (await app.admin.jobs("mail")).jobs}
    assert found.keys() == {plain.id, urgent.id, behind.id, later.id}
    job = found[urgent.id]
    assert (job.queue, job.task, job.state) == ("mail", "send", State.WAITING)
    assert (job.priority, job.key, job.attempt) == (7, "ann", 1)
    assert job.sent
    assert abs(job.sent - datetime.now(UTC)) < timedelta(minutes=5)
    assert (found[behind.id].state, found[behind.id].waits_for) == (State.BLOCKED, "lane")
    assert (found[later.id].state, found[plain.id].key) == (State.SCHEDULED, None)
    assert found[later.id].due
    assert found[plain.id].due is None


async def test_only_jobs_that_fit_are_listed(app: Headrace) -> None:
    @app.task
    async def send(to: str) -> None: ...

    @app.task
    async def load(to: str) -> None: ...

    ann, bob = await send.enqueue("Ann"), await send.options(delay=60).enqueue("bob")
    other = await load.enqueue("ann")

    async def ids(**conditions: str) -> set[str]:
        return {job.id for job in (await app.admin.jobs("default", **conditions)).jobs}  # type: ignore[arg-type]

    assert await ids(task="send") == {ann.id, bob.id}
    assert await ids(state="scheduled") == {bob.id}
    assert await ids(search="aNN") == {ann.id, other.id}
    assert await ids(search=bob.id.upper()) == {bob.id}
    assert await ids(search="ann", task="load", state="waiting") == {other.id}
    assert await ids(search="zoe") == set()
    assert not (await app.admin.jobs("elsewhere")).jobs


async def test_jobs_are_found_by_when_they_were_sent(app: Headrace) -> None:
    @app.task
    async def send() -> None: ...

    new, named = await send.enqueue(), await send.options(id="mail-1").enqueue()
    hour_ago = datetime.now(UTC) - timedelta(hours=1)
    old = int(hour_ago.timestamp() * 1000).to_bytes(6, "big") + new.job_id[6:]
    body = encode_envelope(old, "send", b"\x90")
    await app.store.append("default", [Parcel(old, body)])

    async def ids(**conditions: datetime | timedelta) -> set[str]:
        return {job.id for job in (await app.admin.jobs("default", **conditions)).jobs}  # type: ignore[arg-type]

    assert await ids(since=timedelta(minutes=30)) == {new.id, named.id}
    assert await ids(until=timedelta(minutes=30)) == {to_text(old)}
    assert await ids(since=hour_ago - timedelta(seconds=1)) == {new.id, named.id, to_text(old)}
    assert await ids(since=timedelta(hours=2), until=timedelta(minutes=90)) == set()
    with pytest.raises(ConfigError, match="since must be a datetime with a time zone"):
        await ids(since=datetime(2020, 1, 1))
    assert (await app.admin.cancel(until=timedelta(minutes=30))).cancelled == 1
    assert await ids() == {new.id, named.id}


async def test_a_search_leaves_arguments_alone_if_asked_to(app: Headrace) -> None:
    @app.task
    async def send(to: str) -> None: ...

    await send.enqueue("ann")
    named = await send.options(id="to-ann").enqueue("bob")
    page = await app.admin.jobs(search="ann", arguments=False)
    assert [job.id for job in page.jobs] == [named.id]
    report = await app.admin.cancel(search="ann", arguments=False)
    assert report.cancelled == 1
    assert (await app.admin.queue("default")).waiting == 1
    with pytest.raises(ConfigError, match="say which jobs"):
        await app.admin.cancel(arguments=False)


async def test_dead_jobs_can_be_listed_and_searched_by_error(app: Headrace) -> None:
    (id,) = await bury(app, [envelope("send", "ann")])
    (job,) = (await app.admin.jobs("default", State.DEAD, search="NO SUCH user")).jobs
    assert (job.id, job.reason, job.attempt) == (id, "rejected", 1)
    assert job.error == "ValueError: no such user"
    assert not (await app.admin.jobs("default")).jobs


@pytest.mark.parametrize("limit", [1, 7, 1000])
async def test_pages_lead_to_every_job_once(app: Headrace, limit: int) -> None:
    @app.task
    async def send(number: int) -> None: ...

    calls = [send.options(priority=n % 3).call(n) for n in range(20)]
    calls += [send.options(delay=60 + n).call(n) for n in range(20)]
    calls += [send.options(key="one").call(n) for n in range(5)]
    sent = {job.id for job in await app.enqueue_many(calls)}
    found: list[str] = []
    cursor, more = "", True
    while more:
        page = await app.admin.jobs("default", cursor=cursor, limit=limit)
        found += [job.id for job in page.jobs]
        cursor, more = page.cursor, bool(page.cursor)
    assert set(found) == sent


async def test_a_rare_job_is_found_among_many(app: Headrace) -> None:
    @app.task
    async def send(text: str) -> None: ...

    await app.enqueue_many(send.call("hay") for _ in range(250))
    needle = await send.enqueue("needle")
    page = await app.admin.jobs("default", search="needle", limit=10)
    assert [job.id for job in page.jobs] == [needle.id]


async def test_what_cannot_be_listed_is_refused() -> None:
    admin = Headrace("memory://").admin
    with pytest.raises(ConfigError, match="no state 'flying'; there are scheduled, waiting"):
        await admin.jobs("default", "flying")
    with pytest.raises(ConfigError, match="queue"):
        await admin.jobs("a b")
    with pytest.raises(ConfigError, match="limit"):
        await admin.jobs("default", limit=0)
    for cursor in ("nonsense", "dead/5"):
        with pytest.raises(ConfigError, match=f"'{cursor}' is not a cursor"):
            await admin.jobs("default", cursor=cursor)


@pytest.mark.parametrize("state", ["running", "waiting", "blocked", "scheduled", "dead"])
@pytest.mark.parametrize("cursor", ["x y", "-", "1/2/3/4", "$", "é"])
async def test_what_is_no_cursor_is_refused(app: Headrace, state: str, cursor: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(repr(cursor))):
        await app.admin.jobs("default", state, cursor=f"{state}:default/{cursor}")


async def test_one_job_is_reported_whole(app: Headrace) -> None:
    @app.task(queue="mail", rate="5/m")
    async def send(to: str, *, urgent: bool = False) -> None: ...

    job = await send.options(
        key="ann", priority=3, headers={"a": "b"}, expires=60, id="mail-1"
    ).enqueue("ann", urgent=True)
    info = await app.admin.job("mail-1")
    assert (info.id, info.queue, info.task, info.state) == (job.id, "mail", "send", "waiting")
    assert (info.arguments, info.headers) == (
        {"to": "ann", "urgent": True},
        {"a": "b"},
    )
    assert (info.lane, info.width, info.key, info.priority) == ("key:ann", 1, "ann", 3)
    assert [limit.most for limit in info.limits] == [5]
    assert info.expires
    assert info.sent
    assert info.expires - info.sent <= timedelta(seconds=65)
    assert (info.attempts, info.log, info.once, info.result) == ((), (), (), None)


async def test_of_a_job_that_ended_its_result_log_and_marks_are_reported(app: Headrace) -> None:
    @app.task
    async def work(ctx: Context) -> int:
        ctx.log("one")
        ctx.log("two")
        return 5

    async with app.worker():
        job = await work.enqueue()
        assert await job.result(timeout=10) == 5
    info = await app.admin.job(job.id)
    assert (info.state, info.result, info.arguments) == (State.DONE, 5, {})
    assert info.log == ("one", "two")
    assert await app.admin.log(job.id) == ["one", "two"]


async def test_what_a_job_did_once_is_reported(app: Headrace) -> None:
    @app.task
    async def charge() -> None: ...

    job = await charge.enqueue()
    store = (await app.session()).store
    await store.once_set("default", job.job_id, "charge", b"\xc0")
    await store.once_set("default", job.job_id, "bill", b"\xc0")
    assert (await app.admin.job(job.id)).once == ("bill", "charge")


async def test_the_log_of_a_silent_job_is_empty(app: Headrace) -> None:
    @app.task
    async def work() -> None: ...

    assert await app.admin.log((await work.enqueue()).id) == []


async def test_a_job_that_ended_in_one_queue_is_found_alive_in_another(app: Headrace) -> None:
    await bury(app, [envelope(id="invoice-7")], queue="buried")

    @app.task(queue="zoo")
    async def send() -> None: ...

    await send.options(id="invoice-7").enqueue()
    assert (await app.admin.job("invoice-7")).queue == "zoo"


async def test_bytes_that_are_no_job_are_listed_without_a_task(app: Headrace) -> None:
    job_id = new_id()
    store = (await app.session()).store
    broken = envelope(id="x")[:-1]
    await store.append("default", [Parcel(job_id, broken, delay_ms=60_000)])
    (job,) = (await app.admin.jobs("default")).jobs
    assert (job.id, job.task) == (to_text(job_id), None)


@pytest.mark.parametrize("id", ["never-heard-of", "019df4ab-0000-7000-8000-000000000000"])
async def test_an_unknown_id_is_named(app: Headrace, id: str) -> None:
    for question in (app.admin.job, app.admin.why, app.admin.log):
        with pytest.raises(JobNotFound, match=id):
            await question(id)
