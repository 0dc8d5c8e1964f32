"""Django tasks as functions that a worker runs."""

from __future__ import annotations

import json
import traceback
from asyncio import CancelledError
from collections.abc import Callable, Sequence
from typing import Any

from asgiref.sync import iscoroutinefunction, sync_to_async
from django.db import close_old_connections

from headrace.app import Headrace
from headrace.client.context import Context
from headrace.errors import Defer, HeadraceError, RetryLater, TaskCancelled
from headrace.integrations.django.framework import BaseTaskBackend, base, signals
from headrace.integrations.django.results import (
    TaskAttempt,
    attempt_fields,
    change,
    new_result,
    now,
    stored_result,
)

# Raised by runs that are put off or cut short: the outcome of the task is not known yet.
_UNDECIDED = (Defer, RetryLater, TaskCancelled, CancelledError)


class Function:
    """A Django task as a function that a worker runs."""

    def __init__(
        self, backend: type[BaseTaskBackend], app: Headrace, task: base.Task[..., Any]
    ) -> None:
        self._backend = backend
        self._app = app
        self._task = task

    def as_task(self) -> Callable[..., Any]:
        async def run_async(
            context: Context, args: list[Any], kwargs: dict[str, Any]
        ) -> dict[str, Any]:
            # In the thread where Django's async calls have their connections.
            tidy = sync_to_async(close_old_connections, thread_sensitive=True)
            await tidy()
            past = await _past(context)
            result = self._begun(context, past, args, kwargs)
            try:
                value = await self._task.func(*self._arguments(result), **result.kwargs)
                value = _plain(value)
            except BaseException as error:
                self._failed(result, error)
                raise
            finally:
                await tidy()
            return self._done(result, past, value)

        def run(context: Context, args: list[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
            # As at the beginning and the end of a request: the thread is used again.
            close_old_connections()
            past = self._app.portal.run(_past(context)) if context.attempt > 1 else []
            result = self._begun(context, past, args, kwargs)
            try:
                value = _plain(self._task.func(*self._arguments(result), **result.kwargs))
            except BaseException as error:
                self._failed(result, error)
                raise
            finally:
                close_old_connections()
            return self._done(result, past, value)

        return run_async if iscoroutinefunction(self._task.func) else run

    def _begun(
        self, context: Context, past: list[TaskAttempt], args: list[Any], kwargs: dict[str, Any]
    ) -> base.TaskResult[Any]:
        result = new_result(self._task, args, kwargs, context.job.id)
        runs = [*past, TaskAttempt(now(), None, context.worker)]
        change(result, status=base.TaskResultStatus.RUNNING, **attempt_fields(runs))
        signals.task_started.send(self._backend, task_result=result)
        return result

    def _arguments(self, result: base.TaskResult[Any]) -> Sequence[Any]:
        if not self._task.takes_context:
            return result.args
        return base.TaskContext(task_result=result), *result.args

    def _failed(self, result: base.TaskResult[Any], error: BaseException) -> None:
        if isinstance(error, _UNDECIDED):
            return
        path = f"{type(error).__module__}.{type(error).__qualname__}"
        text = "".join(traceback.format_exception(error))
        result.errors.append(base.TaskError(exception_class_path=path, traceback=text))
        change(result, status=base.TaskResultStatus.FAILED, finished_at=now())
        signals.task_finished.send(self._backend, task_result=result)

    def _done(
        self, result: base.TaskResult[Any], past: list[TaskAttempt], value: Any
    ) -> dict[str, Any]:
        done = base.TaskResultStatus.SUCCESSFUL
        change(result, status=done, finished_at=now(), _return_value=value)
        signals.task_finished.send(self._backend, task_result=result)
        return stored_result(result, past)


async def _past(context: Context) -> list[TaskAttempt]:
    """The attempts before this one, for which a retry asks the store."""
    if context.attempt == 1:
        return []
    try:
        return [TaskAttempt.of(each) for each in (await context.job.info()).attempts]
    except HeadraceError:
        # It can run without knowing.
        return [TaskAttempt(None, None, context.worker)] * (context.attempt - 1)


def _plain(value: Any) -> Any:
    """What a task returned, as Django wants to have it: as JSON has it."""
    return json.loads(json.dumps(value))
