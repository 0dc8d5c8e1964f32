"""The backend: from Django's tasks to jobs, and back to Django's results."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
from asgiref.sync import sync_to_async
from django.core import checks
from django.db import transaction
from django.utils.module_loading import import_string

from headrace.admin.jobs.summary import JobDetail
from headrace.app import Headrace
from headrace.client.task import Task as JobTask
from headrace.core.job.state import State
from headrace.core.task.call import Call
from headrace.errors import ConfigError, JobNotFound
from headrace.integrations.django.framework import (
    BaseTaskBackend,
    InvalidTask,
    TaskResultDoesNotExist,
    base,
    signals,
)
from headrace.integrations.django.function import Function
from headrace.integrations.django.results import (
    StoredResult,
    TaskAttempt,
    attempt_fields,
    change,
    new_result,
    now,
)

_OPTIONS = {"app", "url", "namespace", "enqueue_on_commit", "task"}
_STATUS = {
    State.SCHEDULED: base.TaskResultStatus.READY,
    State.WAITING: base.TaskResultStatus.READY,
    State.BLOCKED: base.TaskResultStatus.READY,
    State.RUNNING: base.TaskResultStatus.RUNNING,
    State.DONE: base.TaskResultStatus.SUCCESSFUL,
    State.DEAD: base.TaskResultStatus.FAILED,
    State.CANCELLED: base.TaskResultStatus.FAILED,
}


class HeadraceBackend(BaseTaskBackend):
    """Django tasks as jobs, each under the path of its function. `OPTIONS`: `app`, an import string
    of the Headrace app to use, or `url` and `namespace` of one made here; `enqueue_on_commit`, so
    that what a transaction sends leaves when it is committed; `task`, options of `@app.task` for
    all of them, such as `retry`."""

    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        unknown = set(self.options) - _OPTIONS
        if unknown:
            known = ", ".join(sorted(_OPTIONS))
            raise ConfigError(f"TASKS[{alias!r}]: there is no option {unknown.pop()!r}: {known}")
        self.app = _app_of(alias, self.options)
        for name in self.queues:
            self.app.queue(name)
        self._adopt()

    def validate_task(self, task: base.Task[..., Any]) -> None:
        super().validate_task(task)
        if task.priority < 0:
            raise InvalidTask(
                f"{task.module_path}: priorities are from 0 to 100; what is less urgent goes to a "
                "queue of its own"
            )
        self._registered(task)

    def enqueue(
        self, task: base.Task[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> base.TaskResult[Any]:
        self.validate_task(task)
        result = new_result(task, args, kwargs)
        call = self._call(task, result)
        if self.options.get("enqueue_on_commit"):
            transaction.on_commit(partial(self._send, call, result))
        else:
            self._send(call, result)
        return result

    async def aenqueue(
        self, task: base.Task[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> base.TaskResult[Any]:
        enqueue = sync_to_async(self.enqueue, thread_sensitive=True)
        result: base.TaskResult[Any] = await enqueue(task, args, kwargs)
        return result

    def get_result(self, result_id: str) -> base.TaskResult[Any]:
        return self._result_of(*self.app.portal.run(self._looked_up(result_id)))

    def check(self, **kwargs: Any) -> Iterable[checks.CheckMessage]:
        if self.app.url.startswith("memory:"):
            yield checks.Error(
                f"TASKS[{self.alias!r}] keeps jobs in the memory of each process",
                hint="use an SQLite file or Redis, so that workers find them",
                id="headrace.E001",
            )

    # From Django to Headrace

    def _adopt(self) -> None:
        """Know the tasks of this alias that came with other settings, such as those of a test:
        their modules are imported once."""
        for (alias, _), task in tuple(_DECLARED.items()):
            if alias == self.alias:
                with contextlib.suppress(InvalidTask):
                    self.validate_task(task)

    def _registered(self, task: base.Task[..., Any]) -> JobTask[..., Any]:
        """The job task of this path; made when the function is first seen."""
        path = task.module_path
        _DECLARED.setdefault((self.alias, path), task)
        if path not in self.app.tasks:
            # What it returned is all that Django knows of a task that has ended.
            options = {
                "queue": task.queue_name,
                "strict_result": True,
                **self.options.get("task", {}),
            }
            self.app.task(name=path, **options)(Function(type(self), self.app, task).as_task())
        return self.app.tasks[path]

    def _call(self, task: base.Task[..., Any], result: base.TaskResult[Any]) -> Call[Any]:
        changes: dict[str, Any] = {"id": result.id, "queue": task.queue_name}
        if task.priority:
            changes["priority"] = task.priority
        if task.run_after is not None:
            changes["at"] = task.run_after
        sent = self._registered(task).options(**changes)
        return sent.call(result.args, result.kwargs)

    def _send(self, call: Call[Any], result: base.TaskResult[Any]) -> None:
        self.app.enqueue_sync(call)
        change(result, enqueued_at=now())
        signals.task_enqueued.send(type(self), task_result=result)

    # And back

    async def _looked_up(self, result_id: str) -> tuple[JobDetail, list[TaskAttempt]]:
        """A job, and its attempts as far as they are stored beside its result."""
        try:
            job = await self.app.admin.job(result_id)
        except JobNotFound:
            raise TaskResultDoesNotExist(result_id) from None
        runs = [TaskAttempt.of(each, job.reason) for each in job.attempts]
        if job.worker and job.state is State.RUNNING:
            running = [run for each in await self.app.admin.workers() for run in each.runs]
            # A worker reports it within two seconds.
            started = next((run.started for run in running if run.id == job.id), None)
            runs.append(TaskAttempt(started, None, job.worker))
        return job, runs

    def _result_of(self, job: JobDetail, runs: list[TaskAttempt]) -> base.TaskResult[Any]:
        if job.state is State.CANCELLED or (job.state is State.DONE and not job.result_kept):
            raise TaskResultDoesNotExist(job.id)
        if job.state is State.DONE:
            kept = msgspec.convert(job.result, StoredResult, strict=False)
            path, args, kwargs, value = kept.path, kept.args, kept.kwargs, kept.value
            runs = kept.runs
        elif job.task is None or job.arguments is None:
            raise TaskResultDoesNotExist(job.id)
        else:
            path, value = job.task, None
            args, kwargs = job.arguments["args"], job.arguments["kwargs"]
        found = new_result(self._as_sent(import_string(path), job), args, kwargs, job.id)
        change(
            found,
            status=_STATUS[job.state],
            enqueued_at=job.sent,
            finished_at=runs[-1].ended if runs and job.state.final else None,
            _return_value=value,
            **attempt_fields(runs),
        )
        return found

    def _as_sent(self, task: base.Task[..., Any], job: JobDetail) -> base.Task[..., Any]:
        """The task with what it was sent with, as far as the store still knows."""
        priority = None if job.state is State.DONE else job.priority
        run_after = None if job.attempts else job.due
        try:
            return task.using(
                backend=self.alias, queue_name=job.queue, priority=priority, run_after=run_after
            )
        except InvalidTask:
            # The settings have changed since.
            return task


_APPS: dict[tuple[str, str, str], Headrace] = {}
# By alias and path, as they were first seen: before any change of their queue.
_DECLARED: dict[tuple[str, str], base.Task[..., Any]] = {}


def _app_of(alias: str, options: Mapping[str, Any]) -> Headrace:
    """One app for all threads; each thread has its own backend object."""
    named, url, namespace = options.get("app"), options.get("url"), options.get("namespace")
    if named and (url or namespace):
        raise ConfigError(f"TASKS[{alias!r}]: give app, or url and namespace, not both")
    # The alias is not part of the key: a worker must know all tasks of a store.
    key = (named or "", url or "", namespace or "")
    if key not in _APPS:
        found = _imported(alias, named) if named else Headrace(url, namespace=namespace)
        # Another thread may have been faster.
        _APPS.setdefault(key, found)
    return _APPS[key]


def _imported(alias: str, name: str) -> Headrace:
    module, colon, attribute = name.partition(":")
    found = getattr(importlib.import_module(module), attribute, None) if colon else None
    if not isinstance(found, Headrace):
        raise ConfigError(
            f"TASKS[{alias!r}]: {name!r} is no Headrace app: write module:attribute, such as "
            "shop.jobs:app"
        )
    return found
