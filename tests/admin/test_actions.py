"""`app.admin.by()` and `app.admin.actions()`."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from headrace import ConfigError, Headrace, JobNotFound, ScheduleNotFound, StoreFull
from headrace.admin import Action, Admin
from headrace.admin.redaction import FAILED
from tests.admin.burying import bury, envelope


def summaries(actions: Sequence[Action]) -> list[tuple[str, str, str]]:
    return [(action.verb, action.target, action.detail) for action in actions]


async def test_an_action_is_recorded_with_who_did_it_the_latest_first(app: Headrace) -> None:
    admin = app.admin.by("ann")
    await admin.pause("mail", "send")
    await app.admin.by("bob").resume("mail")
    latest, first = await app.admin.actions()
    assert (first.actor, first.verb, first.target, first.detail) == (
        "ann", "pause", "mail", "task=send",
    )  # fmt: skip
    assert (latest.actor, latest.verb, latest.error) == ("bob", "resume", None)
    assert first.at <= latest.at
    assert await app.admin.actions(1) == [latest]


async def test_without_an_actor_nothing_is_recorded(app: Headrace) -> None:
    await app.admin.pause("mail")
    assert await app.admin.actions() == []


async def test_an_action_says_which_jobs_were_meant_and_how_many_it_was(app: Headrace) -> None:
    @app.task
    async def send(to: str) -> None: ...

    admin, jobs = app.admin.by("ann"), [await send.enqueue("x") for _ in range(3)]
    await admin.cancel(jobs[0].id)
    await admin.cancel([job.id for job in jobs[1:]], "default")
    await bury(app, [envelope("send", "x") for _ in range(2)], reason="rejected")
    await admin.replay(queue="default", reason="rejected", edit={"to": "a secret"})
    await admin.purge(queue="default", search="nothing")
    assert summaries(await admin.actions())[::-1] == [
        ("cancel", jobs[0].id, "1 cancelled"),
        ("cancel", "2 jobs", "queue=default: 2 cancelled"),
        ("replay", "default", "edit=to, reason=rejected: 2 jobs"),
        ("purge", "default", "search=nothing: 0 jobs"),
    ]


async def test_what_fails_is_recorded_with_the_error(app: Headrace) -> None:
    admin = app.admin.by("ann")
    with pytest.raises(JobNotFound):
        await admin.cancel("unknown")
    with pytest.raises(ScheduleNotFound):
        await admin.pause_schedule("never")
    schedule, cancel = await admin.actions()
    assert (cancel.error or "").startswith("JobNotFound: ")
    assert (schedule.target, schedule.error) == (
        "never",
        "ScheduleNotFound: there is no schedule 'never': it never was, or it was removed",
    )


async def test_actions_are_logged_with_fields(
    app: Headrace, caplog: pytest.LogCaptureFixture
) -> None:
    admin = app.admin.by("ann\n\x1b[31mroot")
    with caplog.at_level(logging.INFO, "headrace.actions"):
        await admin.pause("mail")
        with pytest.raises(ConfigError):
            await admin.cancel()
    done, failed = (vars(record) for record in caplog.records)
    assert (done["actor"], done["verb"], done["target"]) == (r"ann \x1b[31mroot", "pause", "mail")
    assert (done["detail"], done["outcome"]) == ("", "done")
    assert failed["outcome"].startswith("ConfigError: say which jobs")
    assert {record.levelno for record in caplog.records} == {logging.INFO}


async def test_a_record_that_cannot_be_kept_does_not_fail_the_action(
    app: Headrace, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(*_: Any, **__: Any) -> bool:
        raise StoreFull("no room")

    await app.admin.queues()
    monkeypatch.setattr(type(app.store), "record", full)
    await app.admin.by("ann").pause("mail")
    assert (await app.admin.queue("mail")).paused
    assert "what ann did could not be recorded: no room" in caplog.text


@pytest.mark.parametrize("times", [1, 2])
async def test_an_action_that_is_cut_short_is_recorded_as_such(
    app: Headrace, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    begun = asyncio.Event()

    async def endless(*_: Any) -> None:
        begun.set()
        await asyncio.Event().wait()

    await app.admin.queues()
    monkeypatch.setattr(type(app.store), "pause", endless)
    with caplog.at_level(logging.INFO, "headrace.actions"):
        pausing = asyncio.create_task(app.admin.by("ann").pause("mail"))
        await begun.wait()
        for _ in range(times):
            pausing.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await pausing
    assert vars(caplog.records[0])["outcome"] == "cut short"
    async with asyncio.timeout(10):
        while not (actions := await app.admin.actions())[0].finished:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert [(action.verb, action.target, action.error) for action in actions] == [
        ("pause", "mail", "cut short")
    ]


async def test_an_action_that_is_cut_short_waits_for_its_record_no_longer_than_a_moment(
    app: Headrace, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = asyncio.Event()

    async def endless(*_: Any, **__: Any) -> None:
        begun.set()
        await asyncio.Event().wait()

    await app.admin.queues()
    monkeypatch.setattr("headrace.admin.actions._GRACE", 0.01)
    monkeypatch.setattr(type(app.store), "pause", endless)
    pausing = asyncio.create_task(app.admin.by("ann").pause("mail"))
    await begun.wait()
    monkeypatch.setattr(type(app.store), "record", endless)
    pausing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await pausing
    assert "what ann did could not be recorded in time" in caplog.text


async def test_a_thousand_cheap_actions_erase_none(app: Headrace) -> None:
    admin = app.admin.by("ann")
    await admin.purge(queue="mail")
    await asyncio.gather(*(app.admin.by("eve").resume("mail") for _ in range(1_100)))
    (first,) = (await admin.actions(2_000))[-1:]
    assert (first.actor, first.verb, first.target) == ("ann", "purge", "mail")


async def test_actions_are_kept_within_a_bound(
    app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.core.bounds.ACTIONS_KEPT_COUNT", 3)
    admin = app.admin.by("ann")
    for number in range(5):
        await admin.pause(f"queue-{number}")
    assert [action.target for action in await admin.actions()] == ["queue-4", "queue-3", "queue-2"]


async def test_actions_are_kept_for_as_long_as_the_app_says(
    store_url: str, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_ACTIONS_KEPT", "3600")
    async with Headrace(store_url, namespace=namespace) as app:
        assert app.actions_kept == 3_600
        assert Headrace("memory://", actions_kept=5).actions_kept == 5
        hour_ago = await app.store.time_ms() - 3_600_000
        data = msgspec.msgpack.encode(
            {"at_ms": hour_ago, "actor": "bob", "verb": "pause", "target": "old", "detail": "",
             "error": ""}
        )  # fmt: skip
        for moment in (hour_ago - 60_000, hour_ago + 60_000):
            await app.store.record("actions", f"{moment:014d}-1", data, keep=86_400, most=100)
        assert [action.target for action in await app.admin.actions()] == ["old"]
    with pytest.raises(ConfigError, match="actions_kept"):
        Headrace("memory://", actions_kept=0)


async def test_actions_are_listed_by_pages(app: Headrace) -> None:
    admin = app.admin.by("ann")
    for number in range(7):
        await admin.pause(f"queue-{number}")
    found, before = list[str](), ""
    while page := await admin.actions(3, before):
        found += [action.target for action in page]
        before = page[-1].id
    assert found == [f"queue-{number}" for number in range(6, -1, -1)]


async def test_an_action_is_on_record_before_it_is_done(
    app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a process that dies in between leaves it."""
    found: list[Action] = []

    async def look(*_: Any) -> None:
        found.extend(await app.admin.actions())

    await app.admin.queues()
    monkeypatch.setattr(type(app.store), "pause", look)
    await app.admin.by("ann", address="192.0.2.7").pause("mail", "send")
    (begun,) = found
    assert (begun.actor, begun.verb, begun.target, begun.detail) == (
        "ann", "pause", "mail", "task=send",
    )  # fmt: skip
    assert (begun.finished, begun.error, begun.address) == (False, None, "192.0.2.7")
    (ended,) = await app.admin.actions()
    assert (ended.finished, ended.at, ended.id) == (True, begun.at, begun.id)


async def test_what_was_changed_is_on_record_with_what_it_was(app: Headrace) -> None:
    @app.cron("0 3 * * *")
    async def nightly() -> None: ...

    @app.task
    async def send(to: str, times: int = 1) -> None: ...

    admin = app.admin.by("ann")
    await admin.pause("mail")
    await admin.pause("mail")
    await admin.resume("mail")
    await admin.pause_schedule("nightly")
    await bury(app, [envelope("send", "ann@x", 1)])
    (job,) = await admin.dead("default")
    await admin.replay(job.id, edit={"to": "bob@x"})
    changes = [action.changes for action in await admin.actions()][::-1]
    assert changes == [
        ("paused: False → True",),
        (),
        ("paused: True → False",),
        ("paused: False → True",),
        ("to: 'ann@x' → 'bob@x'",),
    ]


async def test_arguments_on_record_are_redacted_as_those_that_are_shown(
    app: Headrace, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task
    async def charge(card: str, cents: int) -> None: ...

    def redact(task: str, value: dict[str, Any]) -> Any:
        if value["cents"] == 13:
            raise ValueError("unlucky")
        return {**value, "card": "****"} if task == "charge" else value

    await bury(app, [envelope("charge", "4111 1111", cents) for cents in (1, 13)])
    dead = {job.arguments[1]: job.id for job in await app.admin.dead("default")}
    admin = app.admin.by("ann").redacted(redact)
    with caplog.at_level(logging.INFO, "headrace.actions"):
        await admin.replay(dead[1], edit={"card": "4222 2222", "cents": 2})
        await admin.replay(dead[13], edit={"card": "4333 3333"})
    unlucky, done = await admin.actions()
    assert done.changes == ("card: '****' → '****'", "cents: 1 → 2")
    assert unlucky.changes == (f"card: '{FAILED}' → '{FAILED}'",)
    assert "4222 2222" not in caplog.text
    assert "4333 3333" not in caplog.text


async def test_actions_about_groups_name_the_group(app: Headrace) -> None:
    orders = app.topic("orders", str)

    @orders.subscribe("billing")
    async def bill(order: str) -> None: ...

    await orders.publish("o-1")
    admin = app.admin.by("ann")
    await admin.rewind("orders", "billing", "start")
    await admin.free_key("orders", "billing", "k")
    await admin.remove_group("orders", "billing", force=True)
    assert summaries(await admin.actions())[::-1] == [
        ("rewind", "billing@orders", "to=start"),
        ("free_key", "billing@orders", "key=k: no"),
        ("remove_group", "billing@orders", "force=True"),
    ]


@pytest.mark.parametrize("actor", [" ", 5, None])
def test_an_actor_has_a_name(app: Headrace, actor: Any) -> None:
    with pytest.raises(ConfigError, match="an actor is a text"):
        app.admin.by(actor)


@pytest.mark.parametrize(
    "verb",
    [
        "cancel", "free_key", "pause", "pause_schedule", "purge", "remove_group",
        "remove_schedule", "replay", "resume", "resume_schedule", "rewind", "run_schedule",
    ],
)  # fmt: skip
def test_every_method_that_changes_something_is_recorded(verb: str) -> None:
    assert hasattr(getattr(Admin, verb), "__wrapped__")


DIES_HALF_WAY = """
import asyncio, os, signal, sys
from headrace import Headrace
from headrace.store.sqlite.store import SqliteStore

async def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

async def main():
    async with Headrace(sys.argv[1]) as app:
        SqliteStore.pause = die
        await app.admin.by("ann", address="192.0.2.7").pause("mail")

asyncio.run(main())
"""


async def test_a_process_that_is_killed_half_way_leaves_a_record_that_says_so(
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", DIES_HALF_WAY, url)
    assert await process.wait() == -signal.SIGKILL
    async with Headrace(url) as app:
        (action,) = await app.admin.actions()
    assert (action.actor, action.verb, action.target, action.address) == (
        "ann", "pause", "mail", "192.0.2.7",
    )  # fmt: skip
    assert (action.finished, action.error) == (False, None)
