"""Django: what a result says of a task, and which workers run it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test.utils import override_settings

from headrace import Headrace, JobFailed, Retry
from headrace.integrations.django.framework import base, task_backends
from headrace.worker.consume import heartbeat
from tests.integrations.conftest import FOLDER, hearing, work

ROOT = Path(__file__).parents[2]


def backend(**options: Any) -> dict[str, Any]:
    name = "headrace.integrations.django.HeadraceBackend"
    return {"BACKEND": name, "QUEUES": ["default", "mail"], "OPTIONS": options}


@pytest.fixture
def patient() -> Iterator[Headrace]:
    """An app whose tasks are tried three times."""
    options = {"url": f"sqlite:///{FOLDER}/patient.db", "task": {"retry": Retry(3, base=0.01)}}
    with override_settings(TASKS={"default": backend(**options)}):
        app = task_backends["default"].app
        yield app
        app.portal.close()


def test_workers_read_all_queues_of_the_settings(app: Headrace, orchard: Any) -> None:
    assert "quiet" not in {task.declared.queue for task in app.tasks.values()}
    assert app.worker().queues == ["default", "mail", "quiet"]
    sent = orchard.add.using(queue_name="quiet").enqueue(1, 1)
    work(app, sent.id)
    found = orchard.add.get_result(sent.id)
    assert (found.return_value, found.task.queue_name) == (2, "quiet")


def test_aliases_of_one_store_share_an_app_and_its_workers() -> None:
    url = f"sqlite:///{FOLDER}/shared.db"
    others = {"other": backend(url=url), "apart": backend(url=url, namespace="apart")}
    with override_settings(TASKS={"default": backend(url=url), **others}):
        default, other, apart = (task_backends[alias] for alias in ("default", *others))
        assert default.app is other.app
        assert apart.app is not default.app


def test_other_settings_know_the_tasks_that_were_imported_before(orchard: Any) -> None:
    url = f"sqlite:///{FOLDER}/other.db"
    with override_settings(TASKS={"default": backend(url=url)}):
        app = task_backends["default"].app
        assert orchard.add.module_path in app.tasks
        assert {task.declared.queue for task in app.tasks.values()} == {"default", "mail"}


def test_tasks_that_were_imported_under_other_settings_are_known() -> None:
    imported_late = """
import tests.integrations.conftest as project
from django.test.utils import override_settings
import headrace.integrations.django as integration

other = {"BACKEND": "headrace.integrations.django.HeadraceBackend", "QUEUES": ["default", "mail"]}
with override_settings(TASKS={"default": other | {"OPTIONS": {"url": "memory://"}}}):
    first = integration.app
assert integration.app is not first
assert integration.app.worker().queues == ["default", "mail", "quiet"]
assert set(integration.app.tasks) == set(first.tasks)
"""
    subprocess.run([sys.executable, "-c", imported_late], check=True, cwd=ROOT)


def test_a_value_that_is_not_json_is_a_failure_that_signals_report(
    app: Headrace, orchard: Any
) -> None:
    with hearing() as signals_of:
        sent = orchard.strange.enqueue()
        work(app, sent.id)
    assert signals_of[sent.id][-1] == ("finished", "FAILED")
    sent.refresh()
    assert [each.exception_class for each in sent.errors] == [TypeError]


def test_a_running_task_has_its_worker_and_its_start(
    app: Headrace, orchard: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "_BEAT", 0.01)
    monkeypatch.setattr(heartbeat, "_RECORD_EVERY", 0.01)
    sent = orchard.look_at_oneself.enqueue()
    work(app, sent.id)
    sent.refresh()
    assert sent.return_value == ["RUNNING", sent.worker_ids, True]


@pytest.mark.parametrize("name", ["second_try", "second_try_async"])
def test_a_retry_knows_what_was_before(patient: Headrace, orchard: Any, name: str) -> None:
    sent = getattr(orchard, name).enqueue()
    work(patient, sent.id)
    sent.refresh()
    assert sent.return_value == ["builtins.ValueError"]
    assert sent.attempts == 2
    (error,) = sent.errors
    assert error.exception_class is ValueError
    assert "not yet" in error.traceback
    assert sent.started_at < sent.last_attempted_at <= sent.finished_at


def test_a_result_has_the_task_as_it_was_sent(orchard: Any) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    sent = orchard.add.using(queue_name="mail", priority=9, run_after=later).enqueue(1, 1)
    task = orchard.add.get_result(sent.id).task
    assert (task.queue_name, task.priority) == ("mail", 9)
    assert abs(task.run_after - later) < timedelta(seconds=1)
    unlike_then = {**backend(url=f"sqlite:///{FOLDER}/jobs.db"), "QUEUES": ["default"]}
    with override_settings(TASKS={"default": unlike_then}):
        assert orchard.add.get_result(sent.id).task == orchard.add


def test_an_error_that_no_task_raised_has_a_class_too(
    app: Headrace, orchard: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "max_payload", 300)
    sent = orchard.add.enqueue("a" * 100, "b" * 100)
    work(app, sent.id)
    sent.refresh()
    (error,) = sent.errors
    assert error.exception_class is JobFailed
    assert error.traceback.startswith("bad_result: the result takes")


async def test_async_views_open_no_connection_of_their_own(
    app: Headrace, orchard: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    loops = []
    session = app.session

    async def noted() -> Any:
        loops.append(asyncio.get_running_loop())
        return await session()

    monkeypatch.setattr(app, "session", noted)
    sent = await orchard.add.aenqueue(4, 4)
    assert (await orchard.add.aget_result(sent.id)).status == base.TaskResultStatus.READY
    assert loops
    assert asyncio.get_running_loop() not in loops
