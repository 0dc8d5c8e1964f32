"""Jobs that a newer version sent are shown as such, wherever people look."""

from __future__ import annotations

import re

import msgspec
import pytest

from headrace import ConfigError, Headrace, State, UnknownJob
from headrace.core.job.constraints import (
    NO_CONSTRAINTS,
    Constraints,
    Gathering,
    Limit,
    batch_gate,
    rate_gate,
)
from headrace.core.job.history import Attempt, History, encode_history
from headrace.core.job.ids import new_id, to_text
from headrace.core.job.outcome import Dead
from headrace.core.job.parcel import Child, Parcel
from headrace.store.contract import Settlement
from tests.admin.burying import bury, envelope

SENT_BY = "A newer version of Headrace sent it, in a format that this one cannot read: "
REFUSAL = Attempt(1, 1_000_000, 1_000_000, "worker-1", "", "written in format 99", "")
RUNS_IT = SENT_BY + "a worker of that version runs it."


def of_newer_version(key: bytes, *rest: object) -> bytes:
    return msgspec.msgpack.encode([99, key, *(rest or ({"new": "shape"},))])


async def sent(
    app: Headrace, constraints: Constraints = NO_CONSTRAINTS, delay_ms: int | None = None
) -> str:
    key = new_id()
    parcel = Parcel(key, of_newer_version(key), delay_ms, constraints=constraints)
    await (await app.session()).store.append("default", [parcel])
    return to_text(key)


async def test_why_says_which_worker_runs_a_job_of_a_newer_version(app: Headrace) -> None:
    id = await sent(app)
    nobody = "It is waiting: no worker is running that reads queue 'default'. "
    assert await app.admin.why(id) == nobody + RUNS_IT
    delayed = await sent(app, delay_ms=3_600_000)
    why = await app.admin.why(delayed)
    assert why.startswith("It is scheduled, due in ")
    assert why.endswith(f". {RUNS_IT}")


async def test_why_of_one_that_workers_have_met_names_no_task(app: Headrace) -> None:
    @app.task
    async def send() -> None: ...

    # It does not get jobs of newer versions: it could not read them.
    @app.fallback
    async def unknown(job: UnknownJob) -> None: ...

    id = await sent(app)
    async with app.worker():
        async for event in app.admin.events("default", follow=True):
            if event.kind in ("retry", "deferred"):
                break
    assert re.fullmatch(
        r"It waits for a worker that reads its format: those that met it since .* UTC do not; it "
        rf"is dead if none does until .* UTC; and no worker .* 'default'\. {re.escape(RUNS_IT)}",
        await app.admin.why(id),
    )


async def test_why_of_a_blocked_one_names_no_task(app: Headrace) -> None:
    lane = Constraints(lane="task:send")
    first, second = await sent(app, lane), await sent(app, lane)
    assert RUNS_IT in await app.admin.why(first)
    why = await app.admin.why(second)
    assert why.startswith("It is blocked: ")
    assert why.endswith(f". {RUNS_IT}")
    assert "None" not in why
    gathering = Constraints(gathering=Gathering(batch_gate("send"), 10, 3_600_000))
    why = await app.admin.why(await sent(app, gathering))
    assert why.startswith("It is blocked: it gathers with no others of its task, until ")
    assert why.endswith(f". {RUNS_IT}")
    limited = Constraints(limits=(Limit(rate_gate("send"), 1, 3_600_000),))
    await sent(app, limited)
    why = await app.admin.why(await sent(app, limited))
    assert why.startswith("It is blocked: its task is over its rate of 1 starts in 1 h; and ")
    assert why.endswith(f". {RUNS_IT}")


async def test_a_dead_one_says_what_to_do(app: Headrace) -> None:
    (id,) = await bury(
        app,
        [of_newer_version(new_id(), "send", b"\x90")],
        reason="newer_format",
        history=History((REFUSAL,), 1),
    )
    why = await app.admin.why(id)
    assert why.startswith("It is dead (newer_format) since ")
    replayed = "a worker of that version runs it once it is replayed."
    assert why.endswith(f"written in format 99. {SENT_BY}{replayed}")
    info = await app.admin.dead_job(id)
    assert (info.newer_format, info.task, info.unreadable) == (True, None, ())
    with pytest.raises(ConfigError, match="cannot be edited: a newer version of Headrace sent it"):
        await app.admin.replay(id, edit={"to": "ann"})
    assert await app.admin.replay(id) == 1


async def test_lists_and_details_tell_it_from_bytes_that_are_no_job(app: Headrace) -> None:
    id, key = await sent(app), new_id()
    await (await app.session()).store.append(
        "default", [Parcel(key, msgspec.msgpack.encode([1, key, 5]))]
    )
    jobs = {job.id: job for job in (await app.admin.jobs()).jobs}
    assert {each: job.newer_format for each, job in jobs.items()} == {id: True, to_text(key): False}
    assert (await app.admin.job(id)).newer_format
    info = await app.job(id).info()
    assert (info.newer_format, info.task, info.state) == (True, None, State.WAITING)
    assert not (await app.job(to_text(key)).info()).newer_format


async def test_jobs_that_wait_for_one_of_a_newer_version_name_no_task_of_it(app: Headrace) -> None:
    store, first, second = (await app.session()).store, new_id(), new_id()
    waiting = Parcel(second, envelope("send", id=to_text(second)), parents=(first,))
    await store.append("default", [waiting])
    newer = Parcel(first, of_newer_version(first), children=(Child("default", second),))
    await store.append("default", [newer])
    why = await app.admin.why(to_text(second))
    assert why.startswith("It is blocked: it waits for ")
    assert "None" not in why
    consumer = store.consumer("worker-1", ["default"], 30.0)
    (delivery,) = await consumer.fetch(1, 1.0)
    delivery.job_id = first
    dead = Dead("newer_format", encode_history(History((REFUSAL,), 1)))
    await consumer.settle("default", [Settlement(delivery, dead)])
    await consumer.close()
    why = await app.admin.why(to_text(second))
    begin, _, end = why.partition(": ")
    assert begin.startswith("It is dead (parent_failed)")
    assert end == f"job {to_text(first)} in queue 'default' failed first: written in format 99."
