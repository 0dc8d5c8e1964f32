"""Django's task framework, wherever it is: in Django from 6.0 on, in `django-tasks` before that."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # Which has types, other than Django, and the same names.
    from django_tasks import base, signals, task_backends
    from django_tasks.backends.base import BaseTaskBackend
    from django_tasks.exceptions import InvalidTaskError as InvalidTask
    from django_tasks.exceptions import TaskResultDoesNotExist
else:
    try:
        from django.tasks import base, signals, task_backends
        from django.tasks.backends.base import BaseTaskBackend
        from django.tasks.exceptions import InvalidTask, TaskResultDoesNotExist
    except ImportError:
        from django_tasks import base, signals, task_backends
        from django_tasks.backends.base import BaseTaskBackend
        from django_tasks.exceptions import InvalidTaskError as InvalidTask
        from django_tasks.exceptions import TaskResultDoesNotExist

__all__ = [
    "BaseTaskBackend",
    "InvalidTask",
    "TaskResultDoesNotExist",
    "base",
    "signals",
    "task_backends",
]
