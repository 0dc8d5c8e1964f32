"""The timeline of a job: its attempts and replays, on every kind of store."""

from __future__ import annotations

import re
from functools import partial

from headrace import Headrace, Retry, chain
from tests.browser.shop import has_dead, until
from tests.web.browsing import Person


def timeline(page: str) -> list[str]:
    """What each entry of the timeline says."""
    items = re.findall(r"<li[^>]*>(.*?)</li>", page[page.index('<ol class="timeline">') :], re.S)
    return [" ".join(re.sub(r"<[^>]+>", " ", item).split()) for item in items]


async def test_a_replay_is_marked_with_who_when_and_the_attempts_around_it(app: Headrace) -> None:
    broken = True

    @app.task(retry=Retry(2, backoff=[0.01]))
    async def charge() -> str:
        if broken:
            raise ValueError("no money")
        return "paid"

    job = await charge.enqueue()
    async with app.worker(), Person(app) as person:
        await until(partial(has_dead, app, "default", 1))
        await app.admin.by("ann <b>").replay(job.id)
        await until(partial(has_dead, app, "default", 1))
        assert (await app.admin.dead_job(job.id)).replays[0].after == 2
        broken = False
        await app.admin.replay([job.id])
        assert await job.result(timeout=20) == "paid"
        shown = timeline(await person.page("/job", id=job.id))
    said = [re.sub(r"\S+ \S+ UTC.*? ago|now", "", entry).split("  ")[0] for entry in shown]
    assert [entry.split()[0] for entry in said] == [
        *("Sent", "Attempt", "Attempt", "Replayed", "Attempt", "Attempt", "Replayed", "Attempt"),
        "Done",
    ]
    assert "by ann &lt;b&gt; 2 attempts before, 2 since" in shown[3]
    assert "by" not in shown[6]
    assert "4 attempts before, 1 since" in shown[6]
    detail = await app.admin.job(job.id)
    assert [(each.by, each.before, each.after) for each in detail.replays] == [
        ("ann <b>", 2, 2),
        ("", 4, 1),
    ]


async def test_a_job_that_died_with_another_and_waited_again_says_so(app: Headrace) -> None:
    broken = True

    @app.task(retry=Retry(1))
    async def load() -> int:
        if broken:
            raise ConnectionError("the bank is away")
        return 1

    @app.task(queue="sums")
    async def add(number: int) -> int:
        return number

    last = await app.enqueue(chain(load.call(), add.call()))
    async with app.worker(), Person(app) as person:
        await until(partial(has_dead, app, "sums", 1))
        (loaded,) = await app.admin.dead("default")
        page = await person.page("/job", id=last.id)
        assert re.search(
            rf'job <a class="id" href="[^"]*id={loaded.id}[^"]*">{loaded.id}</a>', page
        )
        assert "Nothing yet: a job that it waited for failed." in page
        assert "Not kept, or too large" not in page
        broken = False
        await app.admin.by("ann").replay(loaded.id)
        assert await last.result(timeout=20) == 1
        shown = timeline(await person.page("/job", id=last.id))
    assert [entry.split()[0] for entry in shown[:5]] == [
        "Sent", "Waited", "Waited", "Attempt", "Done",
    ]  # fmt: skip
    assert shown[1].startswith("Waited for load , which failed 2")
    assert shown[2].startswith("Waited again when load was replayed 2")
    assert shown[2].endswith(" by ann")
