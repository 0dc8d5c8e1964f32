"""Django tasks as functions that a worker runs."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from asgiref.sync import iscoroutinefunction
from django.db import close_old_connections

from headrace.client.context import Context
from headrace.integrations.django.framework import BaseTaskBackend, base, signals
from headrace.integrations.django.results import Kept, Ran, change, new_result, now


class Function:
    """A Django task as a function that a worker runs."""

    def __init__(self, backend: type[BaseTaskBackend], task: base.Task[..., Any]) -> None:
        self._backend = backend
        self._task = task

    def as_task(self) -> Callable[..., Any]:
        async def run_async(
            context: Context, args: list[Any], kwargs: dict[str, Any]
        ) -> dict[str, Any]:
            result = self._begun(context, args, kwargs)
            try:
                value = await self._task.func(*self._arguments(result), **result.kwargs)
            except BaseException as error:
                self._failed(result, error)
                raise
            return self._done(result, value)

        def run(context: Context, args: list[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
            # As at the beginning and the end of a request: the thread is used again.
            close_old_connections()
            result = self._begun(context, args, kwargs)
            try:
                value = self._task.func(*self._arguments(result), **result.kwargs)
            except BaseException as error:
                self._failed(result, error)
                raise
            finally:
                close_old_connections()
            return self._done(result, value)

        return run_async if iscoroutinefunction(self._task.func) else run

    def _begun(
        self, context: Context, args: list[Any], kwargs: dict[str, Any]
    ) -> base.TaskResult[Any]:
        result = new_result(self._task, args, kwargs, context.job.id)
        workers = [context.worker] * context.attempt
        began = now()
        running = base.TaskResultStatus.RUNNING
        change(
            result, status=running, started_at=began, last_attempted_at=began, worker_ids=workers
        )
        signals.task_started.send(self._backend, task_result=result)
        return result

    def _arguments(self, result: base.TaskResult[Any]) -> Sequence[Any]:
        if not self._task.takes_context:
            return result.args
        return base.TaskContext(task_result=result), *result.args

    def _failed(self, result: base.TaskResult[Any], error: BaseException) -> None:
        path = f"{type(error).__module__}.{type(error).__qualname__}"
        text = "".join(traceback.format_exception(error))
        result.errors.append(base.TaskError(exception_class_path=path, traceback=text))
        change(result, status=base.TaskResultStatus.FAILED, finished_at=now())
        signals.task_finished.send(self._backend, task_result=result)

    def _done(self, result: base.TaskResult[Any], value: Any) -> dict[str, Any]:
        value = json.loads(json.dumps(value))
        done = base.TaskResultStatus.SUCCESSFUL
        change(result, status=done, finished_at=now(), _return_value=value)
        signals.task_finished.send(self._backend, task_result=result)
        started, ended = result.started_at or now(), result.finished_at or now()
        runs = [Ran(started, ended, worker) for worker in result.worker_ids]
        kept = Kept(self._task.module_path, result.args, result.kwargs, value, runs)
        plain: dict[str, Any] = msgspec.to_builtins(kept)
        return plain
