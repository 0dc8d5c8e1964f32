"""Django: its own task framework on Headrace, and jobs that leave when a transaction is committed.

This is a whole project in one file. In yours, `TASKS` is in settings.py, tasks are in tasks.py, and
`headrace worker headrace.integrations.django:app` starts workers.
"""

import asyncio
import os
import sys

import django
from django.conf import settings
from django.db import transaction

from headrace import Headrace
from headrace.integrations.django import enqueue_on_commit

if django.VERSION < (6, 0):
    from django_tasks import task
else:
    from django.tasks import task  # type: ignore[no-redef]

jobs = Headrace(os.environ.get("HEADRACE_URL") or "memory://", namespace="example-django")
# The settings below name this module: the file is the project, too.
sys.modules["django_shop"] = sys.modules[__name__]
settings.configure(
    USE_TZ=True,
    INSTALLED_APPS=[],  # before Django 6: ["django_tasks"]
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    TASKS={
        "default": {
            "BACKEND": "headrace.integrations.django.HeadraceBackend",
            "OPTIONS": {"app": "django_shop:jobs", "enqueue_on_commit": True},
        }
    },
)
django.setup()


@task
def total(prices: list[int]) -> int:
    return sum(prices)


@jobs.task
def thank(name: str) -> str:
    return f"thank you, {name}"


async def ended(*ids: str) -> None:
    """Run jobs until these have ended, as a worker process does in production."""
    async with jobs, jobs.worker():
        for id in ids:
            async for _ in jobs.job(id).watch():
                pass


if __name__ == "__main__":
    with transaction.atomic():
        result = total.enqueue([300, 120])
        enqueue_on_commit(jobs, thank.options(id="thanks").call("Ann"))
    asyncio.run(ended(result.id, "thanks"))
    result.refresh()
    print(result.status, result.return_value)
    print(jobs.job("thanks").result_sync(timeout=10))

# Prints:
# SUCCESSFUL 420
# thank you, Ann
