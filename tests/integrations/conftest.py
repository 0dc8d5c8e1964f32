"""A small Django project, set up once for each process that runs these tests."""

from __future__ import annotations

import asyncio
import atexit
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import django
import pytest
from django.conf import settings
from django.db import connections

from headrace import Headrace, Retry
from headrace.integrations.django.framework import base, signals

# Of the whole process: tests of these modules may run at any time, in any order.
FOLDER = Path(tempfile.mkdtemp(prefix="headrace-django-"))
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)
# Django's own, or that of `django-tasks`: whichever the backend takes.
FRAMEWORK = base.__name__.removesuffix(".base")
TASKS = '''
"""What the Django project in these tests sends."""
from asgiref.sync import sync_to_async
from django.db import connections
from django.utils import timezone
from {framework} import task

from headrace import Defer, Reject, RetryLater

seen = []


@task
def add(a, b):
    return a + b


@task(queue_name="mail", priority=7)
async def greet(name):
    return f"hello {name}"


@task(takes_context=True)
def number(context):
    return [context.task_result.id, context.attempt]


@task
def fail(text):
    raise ValueError(text)


@task
async def connect():
    def open_one():
        connections["default"].ensure_connection()
        return connections["default"]

    seen.append(await sync_to_async(open_one)())
    return seen[-1].connection is not None


@task(takes_context=True)
def decide(context, how):
    if how == "defer" and context.task_result.id in seen:
        return
    seen.append(context.task_result.id)
    raise {"defer": Defer(0), "retry later": RetryLater(0), "reject": Reject()}[how]


@task
def strange():
    return object()


@task(takes_context=True)
def second_try(context):
    if context.attempt == 1:
        raise ValueError("not yet")
    return [each.exception_class_path for each in context.task_result.errors]


@task(takes_context=True)
async def second_try_async(context):
    return second_try.func(context)


@task(takes_context=True)
def look_at_oneself(context):
    own = look_at_oneself.get_result(context.task_result.id)
    while own.started_at is None:
        own.refresh()
    return [own.status, own.worker_ids, own.started_at <= timezone.now()]
'''


def configure() -> None:
    if settings.configured:
        return
    (FOLDER / "orchard").mkdir()
    (FOLDER / "orchard" / "__init__.py").touch()
    (FOLDER / "orchard" / "tasks.py").write_text(TASKS.replace("{framework}", FRAMEWORK))
    sys.path.insert(0, str(FOLDER))
    settings.configure(
        USE_TZ=True,
        INSTALLED_APPS=["orchard"] if FRAMEWORK == "django.tasks" else ["django_tasks", "orchard"],
        DATABASES={
            "default": {"ENGINE": "django.db.backends.sqlite3", "NAME": FOLDER / "orchard.db"}
        },
        TASKS={
            "default": {
                "BACKEND": "headrace.integrations.django.HeadraceBackend",
                "QUEUES": ["default", "mail", "quiet"],
                "OPTIONS": {
                    "url": f"sqlite:///{FOLDER}/jobs.db",
                    "task": {"retry": Retry(1)},
                },
            }
        },
    )
    django.setup()


configure()


@pytest.fixture(autouse=True)
def _closed_connections() -> Iterator[None]:
    """As Django's own tests do at their end, in the thread that they run in."""
    yield
    connections.close_all()


@pytest.fixture
def app() -> Headrace:
    # Not before there are settings.
    import headrace.integrations.django as integration

    found: Headrace = integration.app
    return found


@pytest.fixture
def orchard(app: Headrace) -> Any:
    import orchard.tasks  # type: ignore[import-not-found]

    return orchard.tasks


def work(app: Headrace, *ids: str) -> None:
    """Run jobs until these have ended."""

    async def until_ended() -> None:
        async with app, app.worker():
            for id in ids:
                async for _ in app.job(id).watch():
                    pass

    asyncio.run(until_ended())


@contextmanager
def hearing() -> Iterator[dict[str, list[tuple[str, str]]]]:
    """What signals say of each task, by id: step and status."""
    signals_of: dict[str, list[tuple[str, str]]] = {}

    def hear(signal: Any, task_result: Any, **_: Any) -> None:
        signals_of.setdefault(task_result.id, []).append((names[signal], task_result.status))

    names = {
        signals.task_enqueued: "enqueued",
        signals.task_started: "started",
        signals.task_finished: "finished",
    }
    for signal in names:
        signal.connect(hear)
    try:
        yield signals_of
    finally:
        for signal in names:
            signal.disconnect(hear)
