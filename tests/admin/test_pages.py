"""Lists that are read a page at a time, out of many queues, for a bounded number of calls."""

from __future__ import annotations

import asyncio

import pytest

from headrace import ConfigError, Headrace, Retry, State
from headrace.admin import DeadInfo, JobSummary
from headrace.admin.filters import DeadConditions
from headrace.core.job.envelope import peek_id
from headrace.core.job.parcel import Parcel
from tests.admin.burying import bury, envelope
from tests.admin.counting import counted
from tests.admin.test_topics import BILLING, Order, orders_of, rejecting, worked

QUEUES = [f"q{n:02}" for n in range(60)]


async def sent(app: Headrace, queue: str, *bodies: bytes) -> list[bytes]:
    """Send envelopes as they are; their keys."""
    parcels = [Parcel(peek_id(body), body) for body in bodies]
    await app.store.append(queue, parcels)
    return [parcel.job_id for parcel in parcels]


async def all_jobs(app: Headrace, queue: str | None = None, **options: int) -> list[JobSummary]:
    found, page = [], await app.admin.jobs(queue, **options)  # type: ignore[arg-type]
    found += page.jobs
    while page.cursor:
        page = await app.admin.jobs(queue, cursor=page.cursor, **options)  # type: ignore[arg-type]
        found += page.jobs
    return found


async def test_many_queues_are_paged_by_name_in_few_calls(app: Headrace) -> None:
    for queue in QUEUES:
        await sent(app, queue, envelope())
    await app.admin.pause("q99")
    async with counted(app) as calls:
        page = await app.admin.queue_page(limit=25)
    assert calls.total() <= 5
    assert [info.name for info in page.queues] == QUEUES[:25]
    assert (page.total, page.cursor) == (61, "q24")
    assert all(info.waiting == 1 and info.age is not None for info in page.queues)
    rest = await app.admin.queue_page(after=page.cursor)
    assert [info.name for info in rest.queues] == [*QUEUES[25:], "q99"]
    assert (rest.total, rest.cursor, rest.queues[-1].paused) == (61, "", True)
    found = await app.admin.queue_page("Q1")
    assert ([info.name for info in found.queues], found.total) == (QUEUES[10:20], 10)
    assert await app.admin.queue_page("zoo") == type(page)([], 0, "")
    async with counted(app) as calls:
        assert len(await app.admin.queues()) == 61
    assert calls.total() <= 5
    with pytest.raises(ConfigError, match="limit"):
        await app.admin.queue_page(limit=0)


async def test_thousands_of_dead_jobs_are_paged_through_any_filter(app: Headrace) -> None:
    (needle,) = await bury(app, [envelope("send", "needle")])
    others = [envelope("even" if n % 2 else "odd", n) for n in range(2_999)]
    await bury(app, others)
    async with counted(app) as calls:
        page = await app.admin.dead_page(search="NEEDLE")
    assert calls.total() <= 15
    assert (page.jobs, page.looked) == ([], 1000)
    found: list[DeadInfo] = []
    while page.cursor:
        page = await app.admin.dead_page(search="needle", cursor=page.cursor)
        found += page.jobs
    assert [job.id for job in found] == [needle]

    latest = [info.id for info in await app.admin.dead(task="even", limit=70)]
    async with counted(app) as calls:
        page = await app.admin.dead_page("default", task="even", limit=35)
    assert calls.total() <= 5
    following = await app.admin.dead_page("default", task="even", limit=35, cursor=page.cursor)
    assert [info.id for info in [*page.jobs, *following.jobs]] == latest

    async with counted(app) as calls:
        page = await app.admin.dead_page()
    assert calls.total() <= 5
    assert (len(page.jobs), page.looked) == (50, 50)


async def test_only_queues_that_hold_dead_jobs_are_looked_into(app: Headrace) -> None:
    expected = [(await bury(app, [envelope()], queue=queue))[0] for queue in QUEUES[::20]]
    for queue in QUEUES:
        await sent(app, queue, envelope())
    async with counted(app) as calls:
        page = await app.admin.dead_page()
    assert (sorted(info.id for info in page.jobs), page.cursor) == (sorted(expected), "")
    assert calls["dead"] == 3
    async with counted(app) as calls:
        assert len(await app.admin.dead()) == 3
        assert await app.admin.replay(reason="rejected") == 3
    assert calls["dead"] == 6


async def test_dead_jobs_of_all_queues_and_groups_are_listed_latest_first(app: Headrace) -> None:
    orders = orders_of(app, shards=3)
    rejecting(orders)
    rejecting(orders, "mail")
    await orders.publish_many([Order(f"o-{n}") for n in range(9)])
    await worked(app, dead=9)
    ids = await bury(app, [envelope(), envelope()], queue="a/b:c%")
    found: list[DeadInfo] = []
    page = await app.admin.dead_page(limit=2)
    while page.cursor:
        found += page.jobs
        page = await app.admin.dead_page(limit=2, cursor=page.cursor)
    found += page.jobs
    assert [info.id for info in found[:2]] == ids[::-1]
    died = [info.died for info in found]
    assert died == sorted(died, reverse=True)
    assert len({(info.queue, info.id) for info in found}) == len(found) == page.total == 20
    assert {info.queue.partition("#")[0] for info in found[2:]} <= {BILLING, "mail@orders"}
    page = await app.admin.dead_page(BILLING, limit=100)
    assert (len(page.jobs), page.cursor, page.total) == (9, "", 9)


async def test_pages_of_many_queues_go_on_where_they_were_while_others_die(app: Headrace) -> None:
    buried = []
    for turn in range(4):
        for queue in QUEUES[:12]:
            buried += await bury(app, [envelope()], queue=queue)
        if turn == 1:
            # Some queues have ended when the others go on.
            await app.admin.purge([buried.pop(0) for _ in range(5)])
    found: list[DeadInfo] = []
    page = await app.admin.dead_page(limit=10)
    while page.cursor:
        found += page.jobs
        await bury(app, [envelope()], queue=QUEUES[3])
        page = await app.admin.dead_page(limit=10, cursor=page.cursor)
    found += page.jobs
    assert sorted(info.id for info in found) == sorted(buried)
    died = [info.died for info in found]
    assert died == sorted(died, reverse=True)


async def test_a_search_through_many_queues_goes_on_where_it_stopped(app: Headrace) -> None:
    wanted = []
    for number, queue in enumerate(QUEUES[:6]):
        ids = await bury(app, [envelope("odd"), envelope("even"), envelope("odd")], queue=queue)
        wanted += ids[1:2] if number % 2 else []
    found: list[DeadInfo] = []
    page = await app.admin.dead_page(task="even", search="", scan=4)
    looked = [page.looked]
    while page.cursor:
        found += page.jobs
        page = await app.admin.dead_page(task="even", scan=4, cursor=page.cursor)
        looked.append(page.looked)
    found += page.jobs
    assert {info.id for info in found} >= set(wanted)
    assert (len(found), sum(looked), max(looked)) == (6, 18, 4)


async def test_dead_jobs_that_failed_alike_are_counted_and_replayed_together(
    app: Headrace,
) -> None:
    @app.task(retry=Retry(1))
    async def charge(cents: int) -> None:
        if cents < 0:
            raise ValueError(f"{cents} is too little")
        if cents > 100:
            raise ValueError(f"{cents} is too much")
        raise KeyError(cents)

    await app.enqueue_many(charge.call(cents) for cents in (-1, 101, -2, 50, 102, -3))
    async with app.worker(), asyncio.timeout(30):
        while (await app.admin.queue("default")).dead != 6:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    found = await app.admin.dead_groups()
    assert (found.total, found.looked, found.complete) == (6, 6, True)
    assert [(each.error_type, each.count) for each in found.groups] == [
        ("ValueError", 3), ("ValueError", 2), ("KeyError", 1),
    ]  # fmt: skip
    few = found.groups[0]
    assert (few.task, few.reason, few.queues) == ("charge", "retries_exhausted", ("default",))
    assert few.place.endswith(" in charge")
    assert "test_pages.py:" in few.place
    assert few.error.endswith("is too little")
    assert few.first <= few.latest
    alike = DeadConditions(error_type=few.error_type, place=few.place)
    assert len(await app.admin.dead(**alike)) == 3
    assert await app.admin.replay(**alike) == 3
    left = await app.admin.dead_groups()
    assert [each.count for each in left.groups] == [2, 1]
    assert not (await app.admin.dead_groups(scan=2)).complete
    assert await app.admin.purge(error_type="KeyError") == 1


async def test_jobs_of_all_queues_and_groups_are_listed_state_by_state(app: Headrace) -> None:
    orders = orders_of(app, shards=2)
    rejecting(orders)
    await orders.publish_many([Order(f"o-{n}") for n in range(4)])

    @app.task(queue="mail")
    async def send() -> None: ...

    await app.enqueue_many([send.options(delay=60).call(), send.call()])
    await sent(app, "zoo", envelope(), envelope())
    found = await all_jobs(app, limit=1)
    assert [(job.state, job.queue.partition("#")[0]) for job in found] == [
        (State.WAITING, "mail"),
        (State.WAITING, "zoo"),
        (State.WAITING, "zoo"),
        *[(State.WAITING, BILLING)] * 4,
        (State.SCHEDULED, "mail"),
    ]
    assert await all_jobs(app, limit=1000) == found
    assert len(await all_jobs(app, BILLING, limit=3)) == 4
    page = await app.admin.jobs("zoo", limit=1)
    for elsewhere in ("mail", "zoo2"):
        with pytest.raises(ConfigError, match="is not a cursor of this list"):
            await app.admin.jobs(elsewhere, cursor=page.cursor)


async def test_a_scan_bounds_what_a_page_of_jobs_costs(app: Headrace) -> None:
    for queue in QUEUES:
        await sent(app, queue, envelope("send", queue))
    await sent(app, "q00", *(envelope("send", n) for n in range(300)))
    async with counted(app) as calls:
        page = await app.admin.jobs(None, search="q59", scan=200)
    assert (page.jobs, page.looked, bool(page.cursor)) == ([], 200, True)
    assert calls.total() <= 10
    async with counted(app) as calls:
        page = await app.admin.jobs(None, search="q59", scan=1000)
    assert (page.jobs, bool(page.cursor)) == ([], True)
    assert calls["browse"] <= 50
    assert calls.total() <= 110
    page = await app.admin.jobs(None, search="q59", scan=1000, cursor=page.cursor)
    assert ([job.queue for job in page.jobs], page.cursor) == (["q59"], "")
    assert len(await all_jobs(app, scan=50)) == 360
    with pytest.raises(ConfigError, match="scan"):
        await app.admin.jobs(scan=0)


async def test_a_blocked_job_is_found_among_many_others_on_one_page(app: Headrace) -> None:
    @app.task(queue="mail")
    async def send() -> None: ...

    await app.enqueue_many(send.options(delay=60).call() for _ in range(1_500))
    await app.enqueue_many(send.options(key="one").call() for _ in range(2))
    async with counted(app) as calls:
        page = await app.admin.jobs("mail", State.BLOCKED, limit=20, scan=100)
    assert ([job.waits_for for job in page.jobs], page.cursor) == (["lane"], "")
    assert calls.total() <= 20


async def test_a_page_of_jobs_that_fit_is_as_long_as_was_asked(app: Headrace) -> None:
    await sent(app, "mail", *(envelope("even" if n % 2 else "odd") for n in range(200)))
    first = await app.admin.jobs("mail", task="even", limit=30)
    second = await app.admin.jobs("mail", task="even", limit=80, cursor=first.cursor)
    assert (len(first.jobs), len(second.jobs), second.cursor) == (30, 70, "")
    assert len({job.id for job in [*first.jobs, *second.jobs]}) == 100


async def test_many_topics_are_asked_about_some_at_a_time(app: Headrace) -> None:
    for name in ("bills", "news", "orders"):
        topic = app.topic(name, str, shards=2)
        topic.subscribe("archive")(_archived)
        await topic.publish("one", key="k")
    await app.admin.pause("archive@news")
    async with counted(app) as calls:
        names = await app.admin.topic_names()
    assert (names, calls.total()) == (["bills", "news", "orders"], 1)
    async with counted(app) as calls:
        found = await app.admin.topics(names[1:])
    assert [(info.name, info.published, info.groups[0].paused) for info in found] == [
        ("news", 1, True),
        ("orders", 1, False),
    ]
    assert calls.total() <= 6


async def _archived(text: str) -> None: ...


async def test_one_job_is_found_among_many_queues_in_few_calls(app: Headrace) -> None:
    await bury(app, [envelope(id="dead")], queue="q41")
    for queue in QUEUES:
        await sent(app, queue, envelope())
    await sent(app, "q59", envelope(id="alive"))
    async with counted(app) as calls:
        assert (await app.admin.job("alive")).queue == "q59"
        assert await app.admin.log("alive") == []
        assert (await app.admin.dead_job("dead")).queue == "q41"
        assert await app.admin.replay("dead") == 1
        assert (await app.admin.cancel("alive")).cancelled == 1
    assert calls.total() <= 30
