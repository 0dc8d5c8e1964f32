"""What can be done from the pages, on every store."""

from __future__ import annotations

import asyncio
import html
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest

from headrace import Headrace, State
from headrace.web.actions.form_actions import FORM_ACTIONS, FormAction, form_action
from headrace.web.visit import Visit
from tests.admin.burying import bury, envelope
from tests.web.acting import post
from tests.web.browsing import Person, flash


@pytest.fixture
async def person(app: Headrace) -> AsyncIterator[Person]:
    async with Person(app) as person:
        yield person


async def test_a_queue_is_paused_and_resumed(app: Headrace, person: Person) -> None:
    assert (await person.do("pause", queue="mail")).headers["location"] == "/queues"
    page = await person.page("/queues")
    assert flash(page).startswith("Paused queue mail")
    assert "Resume queue mail" in page
    assert (await app.admin.queue("mail")).paused
    await person.do("resume", queue="mail")
    assert flash(await person.page("/queues")) == "Resumed queue mail."
    assert not (await app.admin.queue("mail")).paused


async def test_one_task_of_a_queue_is_paused(app: Headrace, person: Person) -> None:
    await person.do("pause", queue="mail", task="send")
    assert (await app.admin.queue("mail")).paused_tasks == ("send",)
    await person.do("resume", queue="mail", task="send")
    assert (await app.admin.queue("mail")).paused_tasks == ()


async def test_a_group_is_paused(app: Headrace, person: Person) -> None:
    orders = app.topic("orders", str)

    @orders.subscribe("billing")
    async def bill(order: str) -> None: ...

    await orders.publish("o-1")
    await person.do("pause", queue="billing@orders")
    assert (await app.admin.queue("billing@orders")).paused
    assert flash(await person.page("/")).startswith("Paused group billing@orders")


async def test_a_schedule_is_run_now_paused_and_resumed(app: Headrace, person: Person) -> None:
    @app.cron("0 3 * * *")
    async def nightly() -> None: ...

    await person.do("run_schedule", back="/schedules", name="nightly")
    said = flash(await person.page("/schedules"))
    job = said.removeprefix("Ran schedule nightly: job ").removesuffix(".")
    assert (await app.admin.job(job)).state is State.WAITING
    await person.do("pause_schedule", name="nightly")
    assert "Resume schedule nightly" in await person.page("/schedules")
    assert (await app.admin.schedules())[0].paused
    await person.do("resume_schedule", name="nightly")
    assert not (await app.admin.schedules())[0].paused


async def test_every_action_is_in_the_audit_log(app: Headrace, person: Person) -> None:
    await person.do("pause", queue="mail")
    await person.do("run_schedule", name="none")
    failed, done = await app.admin.actions()
    assert (done.actor, done.verb, done.target, done.error) == ("local", "pause", "mail", None)
    assert failed.error
    page = await person.page("/actions")
    assert "there is no schedule" in page
    assert "mail" in page


@pytest.fixture
def slow() -> asyncio.Event:
    """What the action "sweep" waits for, which asks first."""
    return asyncio.Event()


@pytest.fixture
def sweep(slow: asyncio.Event, monkeypatch: pytest.MonkeyPatch) -> FormAction:
    monkeypatch.setattr("headrace.web.actions.form_actions.FORM_ACTIONS", {**FORM_ACTIONS})
    from headrace.web.actions import form_actions

    async def swept(visit: Visit) -> str:
        await slow.wait()
        return f"Swept {visit.form.getlist('queue')}."

    form_action("sweep", "Sweep", confirm=lambda visit: f"Sweep {visit.form['queue']}?")(swept)
    return form_actions.FORM_ACTIONS["sweep"]


@pytest.mark.parametrize("store_url", ["memory://"])
@pytest.mark.usefixtures("sweep")
async def test_what_cannot_be_undone_is_asked_about_first(
    person: Person, slow: asyncio.Event
) -> None:
    slow.set()
    asked = await person.do("sweep", queue="ma<il")
    assert asked.status_code == 200
    assert "Sweep ma&lt;il?" in asked.text
    assert 'name="queue" value="ma&lt;il"' in asked.text
    answer = await person.do("sweep", queue="ma<il", sure="yes")
    assert answer.status_code == 303
    assert flash(await person.page("/queues")) == "Swept ['ma<il']."


@pytest.mark.parametrize("store_url", ["memory://"])
@pytest.mark.usefixtures("sweep")
async def test_an_action_that_takes_long_goes_on_and_shows_it(
    person: Person, slow: asyncio.Event
) -> None:
    person.site.state.dashboard.background_actions.wait = 0.01
    answer = await person.do("sweep", queue="mail", sure="yes")
    place = answer.headers["location"]
    assert place.startswith("/action?id=")
    page = await person.page(place)
    assert "is still running" in page
    assert '<meta http-equiv="refresh" content="2">' in page
    slow.set()
    (action,) = person.site.state.dashboard.background_actions._actions.values()
    await asyncio.wait({action.task})
    page = await person.page(place)
    assert "Swept" in page
    assert "refresh" not in page
    assert 'href="/queues"' in page


@pytest.mark.parametrize("store_url", ["memory://"])
@pytest.mark.usefixtures("sweep", "slow")
async def test_a_dashboard_that_ends_cuts_short_what_goes_on(person: Person) -> None:
    background = person.site.state.dashboard.background_actions
    background.wait = 0.01
    place = (await person.do("sweep", queue="mail", sure="yes")).headers["location"]
    await background.close()
    assert "Cancelled: the dashboard was stopped" in await person.page(place)


async def test_the_audit_log_says_from_where_and_what_was_changed_and_what_did_not_end(
    app: Headrace, person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    await person.do("pause", queue="mail")
    page = await person.page("/actions")
    assert "127.0.0.1" in page
    assert "paused: False → True" in page
    assert "not finished" not in page
    seen: list[str] = []

    async def look(*_: object) -> None:
        seen.append(await person.page("/actions"))

    monkeypatch.setattr(type(app.store), "resume", look)
    await person.do("resume", queue="mail")
    assert "not finished" in seen[0]


@pytest.mark.parametrize("store_url", ["memory://"])
async def test_the_audit_log_is_paged(
    app: Headrace, person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.web.pages.actions._SHOWN", 2)
    for number in range(3):
        await app.admin.by("ann").pause(f"queue-{number}")
    page = await person.page("/actions")
    assert "queue-1" in page
    assert "queue-0" not in page
    older = re.search(r'href="(/actions\?before=[^"]+)" rel="next"', page)
    assert older
    page = await person.page(older[1])
    assert "queue-0" in page
    assert "queue-1" not in page
    assert 'rel="next"' not in page


@pytest.mark.parametrize("store_url", ["memory://"])
async def test_what_others_recorded_unhidden_is_hidden_where_arguments_are(app: Headrace) -> None:
    @app.task
    async def charge(card: str) -> None: ...

    await bury(app, [envelope("charge", f"card-{number}") for number in range(2)])
    one, other = [job.id for job in await app.admin.dead("default")]
    await app.admin.by("ann").replay(one, edit={"card": "card-2"})
    async with Person(app, redact=lambda task, value: {"card": "****"}) as person:
        fields = {"id": other, "queue": "default", "argument:card": '"card-3"'}
        await post(person, "edit_replay", **fields)
        page = html.unescape(await person.page("/actions"))
        assert "card: (hidden)" in page
        assert "card-" not in page
    async with Person(app) as person:
        assert "card-2" in await person.page("/actions")


async def test_a_job_is_run_now_and_moved(app: Headrace, person: Person) -> None:
    @app.task
    async def ship() -> None: ...

    job = await ship.options(delay=3600).enqueue()
    page = await person.page(f"/job?id={job.id}")
    assert "Run now" in page
    assert "Move to another time, priority or queue" in page
    await person.do("run_now", id=job.id, queue="default")
    assert flash(await person.page("/")) == "1 job due now."
    await person.do("reschedule", id=job.id, delay="60", priority="5", to="other")
    assert flash(await person.page("/")) == "1 job moved."
    detail = await app.admin.job(job.id)
    assert (detail.state, detail.queue, detail.priority) == (State.SCHEDULED, "other", 5)


@pytest.mark.parametrize("fields", [{}, {"delay": "soon"}, {"priority": "200"}, {"to": "a b"}])
async def test_a_move_that_cannot_be_is_refused(
    app: Headrace, person: Person, fields: dict[str, Any]
) -> None:
    @app.task
    async def ship() -> None: ...

    job = await ship.enqueue()
    await person.do("reschedule", id=job.id, queue="default", **fields)
    assert "Nothing was moved" in flash(await person.page("/"))
