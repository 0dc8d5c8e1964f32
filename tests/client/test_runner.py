"""Every sender writes into the envelope where its task runs."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import msgspec
import pytest

from headrace import Call, Headrace, Job, Middleware, State, group
from headrace.core.job import ids
from headrace.core.job.capacity import Runner
from headrace.core.job.envelope import decode_envelope, encode_envelope
from headrace.core.schedule.definition import define
from headrace.core.schedule.schedule import tick_id
from headrace.middleware import Send
from headrace.outbox import Outbox
from tests.admin.burying import bury


def count_words(text: str) -> int:
    return len(text.split())


RUNNERS: dict[str, Runner] = {"wait": "loop", "block": "thread", "count_words": "process"}


@pytest.fixture
def tasks(app: Headrace) -> dict[str, Runner]:
    @app.task(name="wait")
    async def wait(text: str) -> int:
        return 1

    @app.task(name="block")
    def block(text: str) -> int:
        return 1

    app.task(name="count_words", run_in="process")(count_words)
    return RUNNERS


async def runners_of(app: Headrace, *jobs: Job[Any] | str) -> dict[str, Runner]:
    """The runner in the envelope of each job, by its task."""
    store = (await app.session()).store
    wanted = [ids.to_id(job if isinstance(job, str) else job.id) for job in jobs]
    found: dict[str, Runner] = {}
    for snapshot in await store.get("default", wanted, bodies=True):
        assert snapshot is not None
        envelope = decode_envelope(snapshot.envelope)
        found[envelope.task] = envelope.runner
    return found


async def test_jobs_of_tasks_name_the_runner(app: Headrace, tasks: dict[str, Runner]) -> None:
    plain = [await app.tasks[name].enqueue("a") for name in tasks]
    assert await runners_of(app, *plain) == tasks
    special = [await app.tasks[name].options(key="k", timeout=5).enqueue("a") for name in tasks]
    assert await runners_of(app, *special) == tasks
    delayed = [await app.tasks[name].options(delay=60).enqueue("a") for name in tasks]
    assert await runners_of(app, *delayed) == tasks
    many = await app.enqueue_many([app.tasks[name].call("a") for name in tasks])
    assert await runners_of(app, *many) == tasks


async def test_jobs_of_flows_name_the_runner(app: Headrace, tasks: dict[str, Runner]) -> None:
    await app.enqueue(group(app.tasks[name].call("a") for name in tasks))
    store = (await app.session()).store
    found = (await store.browse("default", State.WAITING)).job_ids
    assert len(found) == 3
    assert await runners_of(app, *map(ids.to_text, found)) == tasks


class Passes(Middleware):
    """Has ticks go through it, one by one."""

    async def send(self, call: Call[Any], send: Send) -> Job[Any]:
        return await send(call)


@pytest.mark.parametrize("through_middleware", [False, True])
async def test_jobs_of_schedules_name_the_runner_in_the_program_that_sends(
    app: Headrace, tasks: dict[str, Runner], through_middleware: bool
) -> None:
    if through_middleware:
        app.middleware(Passes())
    for name in tasks:
        await app.schedules.upsert(name, app.tasks[name].call("a"), every=3600)
    now = [await app.schedules.run_now(name) for name in tasks]
    assert await runners_of(app, *now) == tasks
    for name in tasks:
        definition = define(name, app.tasks[name].call("a"), {"every": 3600})
        assert not await app.schedules.send_ticks(name, definition, [7_200_000], 7_200_000)
    ticks = [ids.to_text(tick_id(name, 7_200_000)) for name in tasks]
    assert await runners_of(app, *ticks) == tasks


async def test_rows_of_an_outbox_name_the_runner(
    app: Headrace, tasks: dict[str, Runner], tmp_path: Path
) -> None:
    outbox, file = Outbox(app), tmp_path / "shop.db"
    with sqlite3.connect(file) as connection:
        outbox.create(connection)
        jobs = [outbox.enqueue(connection, app.tasks[name].call("a")) for name in tasks]
    connection.close()
    relay = outbox.relay(f"sqlite:///{file}")
    while await relay.step():
        pass
    await relay.close()
    assert await runners_of(app, *jobs) == tasks


async def test_a_replay_with_other_arguments_is_for_where_the_task_runs_now(
    app: Headrace, tasks: dict[str, Runner]
) -> None:
    payload = msgspec.msgpack.encode(["a"])
    sent = {name: encode_envelope(ids.new_id(), name, payload, runner="loop") for name in tasks}
    dead = await bury(app, list(sent.values()))
    assert await app.admin.replay(dead, edit={"text": "b"}) == 3
    assert await runners_of(app, *dead) == tasks


def test_what_is_sent_by_name_alone_is_for_the_loop() -> None:
    assert Call("somewhere", "default", b"\x90", Any).runner == "loop"
