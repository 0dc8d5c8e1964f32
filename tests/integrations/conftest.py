"""A small Django project, set up once for each process that runs these tests."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import django
from django.conf import settings

from headrace import Retry

FOLDER = Path(tempfile.mkdtemp(prefix="headrace-django-"))
TASKS = '''
"""What the Django project in these tests sends."""
from django_tasks import task

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
'''


def configure() -> None:
    if settings.configured:
        return
    (FOLDER / "orchard").mkdir()
    (FOLDER / "orchard" / "__init__.py").touch()
    (FOLDER / "orchard" / "tasks.py").write_text(TASKS)
    sys.path.insert(0, str(FOLDER))
    settings.configure(
        USE_TZ=True,
        INSTALLED_APPS=["django_tasks", "orchard"],
        DATABASES={
            "default": {"ENGINE": "django.db.backends.sqlite3", "NAME": FOLDER / "orchard.db"}
        },
        TASKS={
            "default": {
                "BACKEND": "headrace.integrations.django.HeadraceBackend",
                "QUEUES": ["default", "mail"],
                "OPTIONS": {
                    "url": f"sqlite:///{FOLDER}/jobs.db",
                    "task": {"retry": Retry(1)},
                },
            }
        },
    )
    django.setup()


configure()
