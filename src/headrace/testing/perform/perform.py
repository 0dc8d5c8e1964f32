"""Runs one function as a worker would, and says how that ended."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar, assert_never, cast, overload

from headrace.client.send.offloading import put
from headrace.client.task import Task
from headrace.client.topic.event_encoder import prepare
from headrace.client.topic.subscription import Subscription
from headrace.core.bounds import check_count
from headrace.core.job.delivery import LeasedDelivery
from headrace.core.job.history import Attempt, History, encode_history
from headrace.core.job.outcome import (
    Cancelled,
    Dead,
    Done,
    Held,
    Left,
    Released,
    Retried,
)
from headrace.core.job.parcel import Parcel
from headrace.core.job.state import State
from headrace.errors import ConfigError
from headrace.store.contract import JobSnapshot
from headrace.testing.perform.isolation import PerformingApp, store_for
from headrace.testing.perform.performed import Performed, PerformedState
from headrace.testing.perform.recorded_context import RecordedContext
from headrace.testing.perform.rehearsal import Rehearsal, Rehearsed
from headrace.testing.sent.sent import Sent
from headrace.worker.worker import lifespan_of

T = TypeVar("T")


@overload
async def perform(
    task: Task[..., Coroutine[Any, Any, T]],
    *args: Any,
    attempt: int = 1,
    headers: Mapping[str, str] | None = None,
    **kwargs: Any,
) -> Performed[T]: ...
@overload
async def perform(
    task: Task[..., T],
    *args: Any,
    attempt: int = 1,
    headers: Mapping[str, str] | None = None,
    **kwargs: Any,
) -> Performed[T]: ...
async def perform(
    task: Task[..., Any],
    *args: Any,
    attempt: int = 1,
    headers: Mapping[str, str] | None = None,
    **kwargs: Any,
) -> Performed[Any]:
    """Run one function as a worker would, and return how that ended; nothing is stored. `task` is a
    task with its arguments, also `task.options(...)`, or a subscription with an event. Arguments
    and result go through the codec, the app's lifespan and middleware are around the function, its
    timeout and retry policy apply. An argument of the task that is named as an option here is given
    by position. What the function sends goes to a store in memory, unless the app is open.

    Args:
        task: A task, or a subscription.
        *args: The function's arguments, or the event.
        attempt: Number of the run, from 1.
        headers: Texts by name, as if sent with them.
        **kwargs: The function's arguments, by name.
    """
    _check_task("perform", task)
    delivery = await _delivery(task, args, kwargs, attempt, headers)
    (performed,) = await _performed(task, [delivery])
    return performed


@overload
def perform_sync(
    task: Task[..., Coroutine[Any, Any, T]],
    *args: Any,
    attempt: int = 1,
    headers: Mapping[str, str] | None = None,
    **kwargs: Any,
) -> Performed[T]: ...
@overload
def perform_sync(
    task: Task[..., T],
    *args: Any,
    attempt: int = 1,
    headers: Mapping[str, str] | None = None,
    **kwargs: Any,
) -> Performed[T]: ...
def perform_sync(task: Task[..., Any], *args: Any, **options: Any) -> Performed[Any]:
    """`perform` for tests without an event loop.

    Args:
        task: A task, or a subscription.
        *args: The function's arguments, or the event.
        attempt: Number of the run, from 1.
        headers: Texts by name, as if sent with them.
        **options: The function's arguments, by name.
    """
    _check_task("perform_sync", task)
    return task.app.portal.run(perform(task, *args, **options))


@overload
async def perform_batch(
    task: Task[..., Coroutine[Any, Any, T]],
    items: Sequence[Any],
    *,
    attempt: int = 1,
    headers: Mapping[str, str] | None = None,
) -> list[Performed[T]]: ...
@overload
async def perform_batch(
    task: Task[..., T],
    items: Sequence[Any],
    *,
    attempt: int = 1,
    headers: Mapping[str, str] | None = None,
) -> list[Performed[T]]: ...
async def perform_batch(
    task: Task[..., Any],
    items: Sequence[Any],
    *,
    attempt: int = 1,
    headers: Mapping[str, str] | None = None,
) -> list[Performed[Any]]:
    """Run the function of a batch task, or of a subscription that takes batches, with these items
    as one batch; how each of them ended.

    Args:
        task: A batch task, or a subscription that takes batches.
        items: What it is given, one of each job or event.
        attempt: Number of the run, from 1.
        headers: Texts by name, as if sent with them.
    """
    _check_task("perform_batch", task)
    if task.declared.batch is None:
        raise ConfigError(f"perform_batch() is for functions that take batches, not for {task!r}")
    if len(items) > task.declared.batch:
        raise ConfigError(
            f"{task!r} takes at most {task.declared.batch} items at a time, not {len(items)}"
        )
    deliveries = [await _delivery(task, (item,), {}, attempt, headers) for item in items]
    for delivery in deliveries:
        delivery.batch = b"one"
    return await _performed(task, deliveries) if deliveries else []


def _check_task(what: str, task: object) -> None:
    if not isinstance(task, Task):
        raise ConfigError(
            f"{what}() takes a task and its arguments, not {task!r}: perform(send_mail, 1)"
        )


async def _performed(
    task: Task[..., Any], deliveries: Sequence[LeasedDelivery]
) -> list[Performed[Any]]:
    app = cast(PerformingApp, task.app)
    async with store_for(app) as sent, lifespan_of(app) as state:
        before = 0 if sent is None else len(sent)
        ended = await Rehearsal(task, state).run(deliveries)
        jobs = [] if sent is None else sent.jobs()[before:]
    return [_of(task, each, jobs) for each in ended]


async def _delivery(
    task: Task[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    attempt: int,
    headers: Mapping[str, str] | None,
) -> LeasedDelivery:
    """The job or the event as a store would hand it to a worker."""
    check_count("perform(attempt=)", attempt)
    if isinstance(task, Subscription):
        queue, parcel = _event(task, args, kwargs, headers)
    else:
        queue, parcel = await _job(task if headers is None else _with(task, headers), args, kwargs)
    delivery = LeasedDelivery(queue, 1, parcel.envelope)
    if attempt > 1:
        failed = tuple(Attempt(n, 0, 0, "test", "", "", "") for n in range(1, attempt))
        delivery.history = encode_history(History(failed, deliveries=attempt - 1))
    return delivery


def _with(task: Task[..., Any], headers: Mapping[str, str]) -> Task[..., Any]:
    return task.options(headers=headers)


async def _job(
    task: Task[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[str, Parcel]:
    call = task._call(args, kwargs)
    parcel = call.parcel(task.app.clock.now_ms())
    if call.packer is not None and call.packer.offload is not None:
        parcel = await put(call.packer.offload, parcel, call.packer.most)
    return call.queue, parcel


def _event(
    task: Subscription[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    headers: Mapping[str, str] | None,
) -> tuple[str, Parcel]:
    if len(args) != 1 or kwargs:
        raise ConfigError(f"{task!r} is performed with one event: perform(handler, event)")
    event = prepare(task.topic, args[0], {} if headers is None else {"headers": headers})
    return f"{task.wants.group}{event.log}", event.parcel


def _of(task: Task[..., Any], ended: Rehearsed, sent: Sequence[Sent]) -> Performed[Any]:
    outcome, made = ended.outcome, partial(Performed[Any], context=ended.context, sent=sent)
    if isinstance(outcome, Done):
        return made("done", result=_result(ended.context, outcome, ended.value))
    if isinstance(task, Subscription) and (task.wants.broadcast or task.wants.ack == "receive"):
        return made("lost", error=ended.error)
    match outcome:
        case Retried():
            state: PerformedState = "deferred" if outcome.deferred else "retried"
            return made(state, delay=outcome.delay_ms / 1000, error=ended.error)
        case Dead():
            return made("dead", reason=str(outcome.reason), error=ended.error)
        case Cancelled():
            return made("cancelled")
        case Held() | Released() | Left():
            return made("left")
        case _:
            assert_never(outcome)


def _result(context: RecordedContext, outcome: Done, value: Any) -> Any:
    """As a caller gets it; without its way through the codec if no result is kept."""
    if not outcome.verdict or value is None:
        return value
    return context.job._unpacked(JobSnapshot(State.DONE, outcome.verdict))
