"""Django: its task framework on Headrace, and jobs that leave with the transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.core import checks
from django.db import connections, transaction
from django.test.utils import override_settings

import headrace.integrations.django as integration
from headrace import ConfigError, Headrace
from headrace.integrations.django import HeadraceBackend, enqueue_on_commit
from headrace.integrations.django.framework import (
    InvalidTask,
    TaskResultDoesNotExist,
    base,
    task_backends,
)
from headrace.testing.drain.calling_thread import CallingThread, ThreadForSyncCode
from headrace.testing.kit import TestKit
from tests.integrations.conftest import FOLDER, hearing, work


def test_a_task_runs_and_its_result_is_found(app: Headrace, orchard: Any) -> None:
    sent = orchard.add.enqueue(2, b=3)
    assert sent.status == base.TaskResultStatus.READY
    assert sent.enqueued_at is not None
    work(app, sent.id)
    sent.refresh()
    assert sent.status == base.TaskResultStatus.SUCCESSFUL
    assert sent.return_value == 5
    assert (sent.args, sent.kwargs, sent.attempts) == ([2], {"b": 3}, 1)
    assert sent.started_at <= sent.finished_at
    assert orchard.add.get_result(sent.id).return_value == 5


def test_queue_priority_and_time_are_kept(app: Headrace, orchard: Any) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    sent = orchard.greet.using(run_after=later).enqueue("Ann")
    job = asyncio.run(_job(app, sent.id))
    assert (job.queue, job.priority, job.task) == ("mail", 7, "orchard.tasks.greet")
    assert job.due is not None
    assert abs(job.due - later) < timedelta(seconds=1)
    assert orchard.greet.get_result(sent.id).status == base.TaskResultStatus.READY
    now = orchard.greet.enqueue("Bob")
    work(app, now.id)
    assert orchard.greet.get_result(now.id).return_value == "hello Bob"


async def _job(app: Headrace, id: str) -> Any:
    async with app:
        return await app.admin.job(id)


def test_a_task_that_takes_its_context_is_given_it(app: Headrace, orchard: Any) -> None:
    sent = orchard.number.enqueue()
    work(app, sent.id)
    sent.refresh()
    assert sent.return_value == [sent.id, 1]


def test_a_failure_is_reported_with_its_class_and_traceback(app: Headrace, orchard: Any) -> None:
    sent = orchard.fail.enqueue("no apples")
    work(app, sent.id)
    sent.refresh()
    assert sent.status == base.TaskResultStatus.FAILED
    (error,) = sent.errors
    assert error.exception_class is ValueError
    assert "no apples" in error.traceback
    with pytest.raises(ValueError, match="Task failed"):
        _ = sent.return_value


def test_signals_show_each_step(app: Headrace, orchard: Any) -> None:
    with hearing() as signals_of:
        sent = orchard.add.enqueue(1, 1)
        work(app, sent.id)
    steps = [("enqueued", "READY"), ("started", "RUNNING"), ("finished", "SUCCESSFUL")]
    assert signals_of[sent.id] == steps


@pytest.mark.parametrize(
    ("how", "finished"), [("defer", ["SUCCESSFUL"]), ("retry later", []), ("reject", ["FAILED"])]
)
def test_a_run_that_puts_itself_off_has_not_failed(
    app: Headrace, orchard: Any, how: str, finished: list[str]
) -> None:
    with hearing() as signals_of:
        sent = orchard.decide.enqueue(how)
        work(app, sent.id)
    assert [status for step, status in signals_of[sent.id] if step == "finished"] == finished


def test_async_tasks_leave_no_connection_behind(app: Headrace, orchard: Any) -> None:
    sent = orchard.connect.enqueue()
    work(app, sent.id)
    sent.refresh()
    assert sent.return_value is True
    assert orchard.seen[-1].connection is None


async def test_async_views_send_too(orchard: Any) -> None:
    sent = await orchard.add.aenqueue(4, 4)
    assert (await orchard.add.aget_result(sent.id)).status == base.TaskResultStatus.READY


def test_what_a_transaction_sends_leaves_when_it_is_committed(orchard: Any) -> None:
    options = {"url": f"sqlite:///{FOLDER}/committed.db", "enqueue_on_commit": True}
    backend = {"BACKEND": "headrace.integrations.django.HeadraceBackend", "OPTIONS": options}
    with override_settings(TASKS={"default": backend}):
        with transaction.atomic():
            undone = orchard.add.enqueue(1, 1)
            transaction.set_rollback(True)
        with pytest.raises(TaskResultDoesNotExist):
            orchard.add.get_result(undone.id)
        with transaction.atomic():
            kept = orchard.add.enqueue(1, 1)
            with pytest.raises(TaskResultDoesNotExist):
                orchard.add.get_result(kept.id)
        assert orchard.add.get_result(kept.id).status == base.TaskResultStatus.READY


def test_jobs_of_headrace_itself_leave_with_the_transaction(app: Headrace) -> None:
    @app.task(name="pick")
    def pick(apples: int) -> int:
        return apples

    with transaction.atomic():
        enqueue_on_commit(app, pick.options(id="undone").call(3))
        transaction.set_rollback(True)
    with transaction.atomic():
        enqueue_on_commit(app, pick.options(id="kept").call(3))
    work(app, "kept")
    assert app.job("kept").result_sync(timeout=5) == 3
    with pytest.raises(TaskResultDoesNotExist):
        task_backends["default"].get_result("undone")


def test_what_is_not_supported_is_refused_by_name(orchard: Any) -> None:
    with pytest.raises(InvalidTask, match="priorities are from 0 to 100"):
        orchard.add.using(priority=-1)
    with pytest.raises(InvalidTask, match="'other' is not valid"):
        orchard.add.using(queue_name="other")
    with pytest.raises(TaskResultDoesNotExist):
        orchard.add.get_result("nobody")
    with pytest.raises(ConfigError, match="no option 'colour'"):
        HeadraceBackend("default", {"OPTIONS": {"colour": "red"}})
    with pytest.raises(ConfigError, match="is no Headrace app"):
        HeadraceBackend("default", {"OPTIONS": {"app": "json:dumps"}})
    memory = HeadraceBackend("other", {"OPTIONS": {"url": "memory://"}})
    assert [type(each) for each in memory.check()] == [checks.Error]


def test_all_threads_share_one_app() -> None:
    found: list[Headrace] = []

    async def look() -> None:
        await asyncio.to_thread(lambda: found.append(task_backends["default"].app))

    asyncio.run(look())
    assert found == [integration.app]


def drained_at_once(kit: TestKit) -> None:
    kit.drain_sync()


def drained_in_an_async_test(kit: TestKit) -> None:
    """As pytest runs one."""
    asyncio.run(drained_through_asgiref(kit))


def drained_in_an_async_test_of_django(kit: TestKit) -> None:
    """As Django runs one."""
    async_to_sync(drained_through_asgiref)(kit)


async def drained_through_asgiref(kit: TestKit) -> None:
    await sync_to_async(kit.drain_sync)()


@pytest.mark.parametrize(
    "drained", [drained_at_once, drained_in_an_async_test, drained_in_an_async_test_of_django]
)
def test_a_drain_runs_async_tasks_with_sync_code_in_the_thread_of_its_caller(
    app: Headrace, orchard: Any, drained: Callable[[TestKit], None]
) -> None:
    orchard.seen.clear()
    with app.testing() as kit:
        sent = [orchard.connect.enqueue(), orchard.greet.enqueue("Ann"), orchard.add.enqueue(1, 2)]
        drained(kit)
        for each in sent:
            each.refresh()
        assert [each.return_value for each in sent] == [True, "hello Ann", 3]
    (connection,) = orchard.seen
    if drained is not drained_in_an_async_test:
        # That of this thread, so that a transaction of the test is seen.
        assert connection is connections["default"]


def test_sync_code_that_comes_after_a_drain_still_runs() -> None:
    thread = CallingThread()
    done: Future[None] = Future()
    done.set_result(None)
    thread.serve(done)
    assert ThreadForSyncCode(thread).submit(lambda: 7).result(60) == 7
