"""A backend for Django's task framework: `django.tasks` of Django 6, or the `django-tasks` package
before that.

    TASKS = {
        "default": {
            "BACKEND": "headrace.integrations.django.HeadraceBackend",
            "QUEUES": ["default", "mail"],
            "OPTIONS": {"app": "shop.jobs:app", "enqueue_on_commit": True},
        }
    }

    DJANGO_SETTINGS_MODULE=shop.settings headrace worker headrace.integrations.django:app
"""

from __future__ import annotations

from functools import partial
from typing import Any

import django
from django.db import transaction
from django.utils.module_loading import autodiscover_modules

from headrace.app import Headrace
from headrace.core.flow.flow import Flow
from headrace.core.task.call import Call
from headrace.errors import ConfigError
from headrace.integrations.django.backend import HeadraceBackend
from headrace.integrations.django.framework import task_backends

__all__ = ["HeadraceBackend", "enqueue_on_commit"]


def enqueue_on_commit(
    jobs: Headrace, step: Call[Any] | Flow[Any], using: str | None = None
) -> None:
    """Send a call of a Headrace task when the current transaction commits, or at once if there is
    none; not at all if it is rolled back.

    Args:
        jobs: The Headrace app.
        step: What `task.call`, `chain` or `group` made.
        using: The alias of the database; the default one unless said.
    """
    transaction.on_commit(partial(jobs.enqueue_sync, step), using=using)


def __getattr__(name: str) -> Headrace:
    """`app`, for the command line: the one of the default backend, with the tasks of all installed
    applications."""
    if name != "app":
        raise AttributeError(name)
    django.setup()
    autodiscover_modules("tasks")
    # Those of the same store share an app, and each has queues.
    task_backends.all()
    backend = task_backends["default"]
    if not isinstance(backend, HeadraceBackend):
        raise ConfigError("TASKS['default'] of the Django settings is not a HeadraceBackend")
    return backend.app
