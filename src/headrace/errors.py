"""What can go wrong, as one tree.

HeadraceError
├── ConfigError             wrong use: an option, a URL, a name; nothing was done
│   ├── QueueNotFound       nobody declared this queue, and nothing was ever sent to it
│   └── WorkerNotFound      no worker of that name is running
├── SendError
│   ├── ArgumentError       the call's arguments do not fit the task or cannot travel
│   ├── PayloadTooLarge     the encoded arguments are over the limit
│   ├── OffloadError        the payload could not be kept outside of the store; nothing was sent
│   ├── EnqueueUnknown      the store's answer was lost: the jobs may or may not be stored
│   ├── EventError          the event does not fit its topic or cannot travel
│   ├── QueueFull           the queue holds as many jobs as it may
│   │   └── KeyFull         as many jobs of the key wait as may
│   └── TopicFull           the topic holds as many events as it may
├── StoreError
│   ├── StoreUnavailable    unreachable, starting, read-only for now: try again
│   │   └── StoreRefused    a password, rights, a certificate: a person must change something
│   ├── StoreFull           out of memory or disk: try again once there is room
│   └── StoreMismatch       a foreign or newer file, a key of the wrong type: a person must look
├── ScheduleNotFound        there is no schedule of that name
├── EventNotFound           the topic's log does not hold this event (any more)
├── GroupNotFound           the topic has no such group
├── TopicNotFound           the store has no such topic
├── DeliveryUsed            a delivery was settled by hand a second time, or too late
├── LeaseLost               another worker has the job now; what this one did is not recorded
├── ProcessDied             the process that ran the job ended before the job did
├── AuditError              a delivery could not be recorded where the app says it must be
└── JobError
    ├── JobNotFound         the store does not know the id (any more)
    ├── JobFailed           the job is dead; carries the remote error
    ├── JobCancelled
    ├── ResultTimeout       not finished within the time that the caller wanted to wait
    ├── ResultExpired       finished, but its result is no longer kept (or never was)
    ├── ResultLost          finished, but what it returned cannot travel
    └── ResultUnreadable    finished, but what it returned is not what its task says

`RetryLater`, `Reject`, `Defer` and `BatchError` are not errors but task control: they stand outside
the tree, so that a task's own `except HeadraceError` does not swallow them. `TaskCancelled` ends a
running function and is, like `asyncio.CancelledError`, not even an `Exception`.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class HeadraceError(Exception):
    """Base of all errors that Headrace raises."""

    retryable = False


class ConfigError(HeadraceError, ValueError):
    """Headrace is used in a way that cannot work; the text says what to change."""


class QueueNotFound(ConfigError):
    """There is no such queue: the app does not declare it, and the store does not have it.

    Attributes:
        queue: The name that was given.
    """

    def __init__(self, queue: str, hint: str = "") -> None:
        super().__init__(f"there is no queue {queue!r}{hint}")
        self.queue = queue


class WorkerNotFound(ConfigError):
    """No worker of this name is running.

    Attributes:
        worker: The name that was given.
    """

    def __init__(self, worker: str) -> None:
        super().__init__(f"no worker {worker!r} is running: headrace workers lists those that are")
        self.worker = worker


class SendError(HeadraceError):
    """A job could not be sent."""


class ArgumentError(SendError, TypeError):
    """The arguments of a call do not fit its task, or one of them cannot travel.

    Attributes:
        task: The task's name.
        problem: What is wrong, without the task.
        argument: The name of the argument, if it is one of them.
    """

    def __init__(self, task: str, problem: str, argument: str | None = None) -> None:
        super().__init__(f"task {task!r}: {problem}")
        self.task = task
        self.problem = problem
        self.argument = argument


class PayloadTooLarge(SendError):
    """The encoded arguments are larger than the app's `max_payload`.

    Attributes:
        task: The task's name, or the topic's.
        size: Bytes that it takes.
        limit: Bytes that it may take.
        argument: The name of the largest argument.
    """

    def __init__(self, task: str, size: int, limit: int, argument: str | None = None) -> None:
        largest = f" (largest argument: {argument!r})" if argument else ""
        is_event = task.startswith("@")
        what = (
            f"topic {task[1:]!r}: the event takes"
            if is_event
            else f"task {task!r}: the arguments take"
        )
        super().__init__(
            f"{what} {size:,} bytes, the limit is {limit:,}{largest}; "
            "send a reference to the data instead, or raise max_payload"
        )
        self.task, self.size, self.limit, self.argument = task, size, limit, argument


class OffloadError(SendError):
    """The `put` of an `Offload` failed; nothing was sent.

    Attributes:
        task: The task's name.
        size: Bytes that it takes.
    """

    retryable = True

    def __init__(self, task: str, size: int, error: BaseException) -> None:
        what = f"topic {task[1:]!r}" if task.startswith("@") else f"task {task!r}"
        said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        super().__init__(
            f"{what}: its payload of {size:,} bytes could not be put outside of the store, and "
            f"nothing was sent: {said}"
        )
        self.task, self.size = task, size


class EnqueueUnknown(SendError):
    """The store's answer was lost, or a part of many jobs is stored. These jobs may be stored:
    sending them again with the same ids is safe.

    Attributes:
        job_id: The id of the first job or event.
        job_ids: The ids of all that are not known to be stored: sending them again under these is
            safe.
    """

    retryable = True

    def __init__(self, job_ids: Sequence[str], cause: str) -> None:
        count = len(job_ids)
        what = f"job {job_ids[0]}" if count == 1 else f"{count} jobs"
        super().__init__(f"it is unknown whether {what} reached the store: {cause}")
        self.job_id = job_ids[0]
        self.job_ids = tuple(job_ids)


class EventError(SendError, TypeError):
    """An event does not fit its topic, or cannot travel.

    Attributes:
        topic: The name of the topic.
    """

    def __init__(self, topic: str, problem: str) -> None:
        super().__init__(f"topic {topic!r}: {problem}")
        self.topic = topic


class QueueFull(SendError):
    """The queue holds as many jobs as its `max_length` allows; these, `job_ids`, were not
    stored.

    Attributes:
        queue: The name of the queue.
        max_length: How many jobs it may hold.
        job_ids: The ids of those that were not stored.
    """

    retryable = True

    def __init__(
        self, queue: str, most: int, job_ids: Sequence[str], overflow: str = "reject"
    ) -> None:
        holds = f"holds {most:,} {'job that has' if most == 1 else 'jobs that have'} not ended"
        self._why = f"queue {queue!r} {holds}, which is its max_length"
        self._advice = _AFTER_OVERFLOW[overflow]
        self.queue = queue
        self.max_length = most
        self._name(job_ids)

    def _name(self, job_ids: Sequence[str], others: Sequence[str] = ()) -> None:
        """Say that these jobs were not stored, some of them because `others` are full too."""
        self.job_ids = tuple(job_ids)
        self._others = tuple(others)
        what = f"job {job_ids[0]} was" if len(job_ids) == 1 else f"{len(job_ids)} jobs were"
        queues = f", some of them for queue {' and '.join(map(repr, others))}" if others else ""
        self.args = (f"{self._why}: {what} not stored{queues}; {self._advice}",)

    def for_all(self, job_ids: Sequence[str], full: Sequence[QueueFull]) -> QueueFull:
        """Make it the error of all jobs that were refused of those sent together, `job_ids`; `full`
        has the errors of all queues and keys."""
        queues = dict.fromkeys(name for each in full for name in (each.queue, *each._others))
        queues.pop(self.queue)
        self._name(job_ids, list(queues))
        return self

    def of_flow(self, size: int) -> QueueFull:
        """Make it the error of a flow with `size` jobs in the queue; none of them was stored."""
        if size > self.max_length:
            self.retryable = False
            self.args = (
                f"the flow has {size:,} jobs in queue {self.queue!r}, which holds at most "
                f"{self.max_length:,} (max_length): nothing was stored; raise max_length, or "
                "divide the flow",
            )
        return self


class KeyFull(QueueFull):
    """As many jobs of `key` wait behind others of it as `max_pending_per_key` allows; these,
    `job_ids`, were not stored.

    Attributes:
        queue: The name of the queue.
        key: The key.
        max_pending_per_key: How many of its jobs may wait.
        max_length: The same.
        job_ids: The ids of those that were not stored.
    """

    def __init__(self, queue: str, key: str, most: int, job_ids: Sequence[str]) -> None:
        jobs = f"{most:,} {'job' if most == 1 else 'jobs'} of key {key!r} in queue {queue!r}"
        self._why = f"{jobs} wait for others of it, which is max_pending_per_key"
        self._advice = "send again when workers have caught up"
        self.queue = queue
        self.key = key
        self.max_length = self.max_pending_per_key = most
        self._name(job_ids)

    def of_flow(self, size: int) -> QueueFull:
        """Make it the error of a flow; none of its jobs was stored."""
        return self


_AFTER_OVERFLOW = {
    "reject": "send again when workers have caught up, or give it overflow='block' or "
    "'drop_oldest'",
    "block": "flows and schedules do not wait for room: send again when workers have caught up",
    "drop_oldest": "no job waits in it that could be dropped: send again when workers have caught "
    "up",
}


class TopicFull(SendError):
    """The topic holds as many events as its `max_length` allows; these were not published.

    Attributes:
        topic: The name of the topic.
    """

    retryable = True

    def __init__(self, topic: str, most: int) -> None:
        super().__init__(
            f"topic {topic!r} holds {most:,} events, which is its max_length: publish again when "
            "its groups have caught up, or give it overflow='block' or 'drop_oldest'"
        )
        self.topic = topic


class StoreError(HeadraceError):
    """The store could not do what it was asked."""


class StoreUnavailable(StoreError):
    """The store cannot be reached or is not ready. The request was not carried out, or `sent` says
    that it may have been.

    Attributes:
        sent: Whether the request left for the store, so that it may have been carried out.
        silent: Whether it was waited for until its time was over.
        answered: Whether the store has answered, and said why it is not ready.
    """

    retryable = True

    def __init__(
        self, message: str, *, sent: bool = False, silent: bool = False, answered: bool = False
    ) -> None:
        super().__init__(message)
        self.sent = sent
        self.silent = silent
        self.answered = answered


class StoreRefused(StoreUnavailable):
    """The store refuses this user or a command that Headrace needs, or its certificate is not
    trusted, or the URL names a port with TLS where there is none, or the other way round. Nothing
    was done, and it stays so until someone changes a password, rights or a setting.

    Attributes:
        login: Whether it wants a user and a password, or others.
        answered: Whether it was the store that refused; it was not if there was no connection.
    """

    retryable = False

    def __init__(self, message: str, *, login: bool = False, answered: bool = True) -> None:
        super().__init__(message, answered=answered)
        self.login = login


class StoreFull(StoreError):
    """The store has no room for more; nothing was stored."""

    retryable = True


class StoreMismatch(StoreError):
    """The store holds data that Headrace did not write, or that a newer Headrace wrote."""


class ScheduleNotFound(HeadraceError):
    """There is no schedule of this name: it never was, or it was removed.

    Attributes:
        name: The name that was given.
    """

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no schedule {name!r}: it never was, or it was removed")
        self.name = name


class EventNotFound(HeadraceError):
    """The log of the topic does not hold this event: it never did, or it was trimmed. `group` is
    the group that should begin there, if any.

    Attributes:
        event_id: The id that was given.
        group: The group that should begin there, if it is one.
    """

    def __init__(self, log: str, event_id: str, group: str = "") -> None:
        wish = f", at which group {group!r} should begin" if group else ""
        way_out = "; begin= takes 'new', 'start', an id that is there, or a time" if group else ""
        super().__init__(
            f"topic {log.removeprefix('@')!r} does not hold event {event_id}{wish}: it never did, "
            f"or it is older than the topic's retention{way_out}"
        )
        self.event_id = event_id
        self.group = group


class GroupNotFound(HeadraceError):
    """The topic has no such group: none was ever declared, or it was removed."""

    def __init__(self, queue: str) -> None:
        group, _, topic = queue.partition("@")
        super().__init__(
            f"topic {topic!r} has no group {group!r}: no worker with it ever ran, or it was removed"
        )


class TopicNotFound(HeadraceError):
    """There is no topic of this name: nothing was ever published to it, and no group joined it.

    Attributes:
        topic: The name that was given.
    """

    def __init__(self, topic: str) -> None:
        super().__init__(
            f"there is no topic {topic!r}: nothing was ever published to it, and no worker with a "
            "group of it ever ran"
        )
        self.topic = topic


class DeliveryUsed(HeadraceError):
    """A delivery is settled by hand once: it was acknowledged, retried, rejected or deferred
    already, or its time was up. The text says which."""


class LeaseLost(HeadraceError):
    """The delivery was given to another worker; this one's outcome was not recorded."""


class ProcessDied(HeadraceError):
    """The process that ran the job ended before the job did, or had to be ended."""

    retryable = True


class AuditError(HeadraceError):
    """A delivery could not be recorded, and fails for it: see `app.audit(on_error="fail")`."""

    retryable = True


class JobError(HeadraceError):
    """There is no such job, or it has no result to return.

    Attributes:
        job_id: The id of the job.
    """

    def __init__(self, message: str, job_id: str) -> None:
        super().__init__(message)
        self.job_id = job_id


class JobNotFound(JobError):
    """The store does not know this job: it never did, or it has forgotten it.

    Attributes:
        job_id: The id of the job.
    """

    def __init__(self, job_id: str) -> None:
        super().__init__(
            f"job {job_id} is not in the store: it never was, it was removed, or it has ended and "
            "is no longer kept (keep_done, result_ttl)",
            job_id,
        )


class JobFailed(JobError):
    """The job is dead. `error_type`, `error_text` and `traceback` say what happened to it, `reason`
    why it was given up. `cause` is the failure of the job that failed first, if this one waited for
    it in a flow. `task` is None if it is not known.

    Attributes:
        job_id: The id of the job.
        reason: Why it is dead; one of `Reason`.
        error_type: The full name of the class of what was raised; empty if nothing was.
        error_text: Its text.
        traceback: Where it was raised.
        task: The task's name, if it is known.
        cause: In a flow, the failure of the job that failed first.
    """

    def __init__(
        self,
        job_id: str,
        reason: str,
        error_type: str,
        error_text: str,
        traceback: str,
        task: str | None = None,
        cause: JobFailed | None = None,
    ) -> None:
        what = f"{error_type}: {error_text}" if error_type else error_text
        if cause is not None:
            of_task = f" of task {cause.task!r}" if cause.task else ""
            what = f"job {cause.job_id}{of_task} failed first: {cause.error}"
        super().__init__(f"job {job_id} is dead ({reason}): {what}", job_id)
        self.reason: str = reason
        self.error_type: str = error_type
        self.error_text: str = error_text
        self.traceback: str = traceback
        self.task: str | None = task
        self.cause: JobFailed | None = cause

    @property
    def error(self) -> str:
        """Type and text of the error; only the text if no task raised it."""
        return f"{self.error_type}: {self.error_text}" if self.error_type else self.error_text


class JobCancelled(JobError):
    """The job was cancelled before it ended.

    Attributes:
        job_id: The id of the job.
    """

    def __init__(self, job_id: str) -> None:
        super().__init__(f"job {job_id} was cancelled", job_id)


class ResultTimeout(JobError, TimeoutError):
    """The job has not ended yet; it goes on. `why` is what `app.admin.why` says of it, `store` the
    URL of the store that it is in; both are empty if the store did not answer.

    Attributes:
        job_id: The id of the job.
        waited: Seconds.
        why: What `app.admin.why` knows.
        store: The store that the job is in.
    """

    def __init__(self, job_id: str, waited: float, why: str = "", store: str = "") -> None:
        said = f"job {job_id} has not ended within {waited:g} s{f', in {store}' if store else ''}"
        super().__init__(f"{said}. {why}" if why else said, job_id)
        self.waited = waited
        self.why = why
        self.store = store


class ResultExpired(JobError):
    """The job ended, but its result is not kept: see the task's `result_ttl`.

    Attributes:
        job_id: The id of the job.
    """

    def __init__(self, job_id: str) -> None:
        super().__init__(
            f"the result of job {job_id} is not in the store: its result_ttl has passed or is 0, "
            "or the job was removed",
            job_id,
        )


class ResultLost(JobError):
    """The job ended well, but what its function returned cannot travel, so that nothing is left of
    it but `shown`. See the task's `strict_result`.

    Attributes:
        job_id: The id of the job.
        problem: Why it cannot travel.
        shown: The `repr` of what was returned, up to 1,000 characters.
    """

    def __init__(self, job_id: str, problem: str, shown: str) -> None:
        super().__init__(
            f"job {job_id} is done, but its result is lost: {problem}. It was: {shown}", job_id
        )
        self.problem = problem
        self.shown = shown


class ResultUnreadable(JobError):
    """The job ended well, but its result does not fit the return type that the task declares.

    Attributes:
        job_id: The id of the job.
    """

    def __init__(self, job_id: str, problem: str) -> None:
        super().__init__(f"the result of job {job_id} cannot be read: {problem}", job_id)


class TaskControl(Exception):
    """Raised by a task to decide the outcome of its run."""


class RetryLater(TaskControl):
    """Run the job again after `delay` (default: as its retry policy says); uses an attempt.

    Args:
        delay: Seconds or a timedelta; as the retry policy says unless given.
        reason: Why, for people.
    """

    def __init__(self, delay: float | timedelta | None = None, reason: str = "") -> None:
        super().__init__(reason or "the task asked to be retried")
        self.delay = _seconds(delay)


class Reject(TaskControl):
    """Give the job up now: it is dead, with this reason, and is not retried.

    Args:
        reason: Why, for people.
    """

    def __init__(self, reason: str = "the task rejected the job") -> None:
        super().__init__(reason)


class Defer(TaskControl):
    """Run the job again after `delay`, as if this run had not happened: uses no attempt.

    Args:
        delay: Seconds or a timedelta.
    """

    def __init__(self, delay: float | timedelta) -> None:
        super().__init__("the task deferred the job")
        self.delay = _seconds(delay) or 0.0


class BatchError(TaskControl):
    """Of a batch, these jobs failed, each with its own error (or `RetryLater`, `Reject`, `Defer`);
    all others are done. The keys are positions in the list that the function was given.

    Args:
        errors: The error of each job that failed, by its position.
    """

    def __init__(self, errors: Mapping[int, BaseException]) -> None:
        count = len(errors)
        super().__init__(f"{count} {'job' if count == 1 else 'jobs'} of the batch failed")
        self.errors = dict(errors)


class TaskCancelled(BaseException):
    """Raised in the thread or process whose job was cancelled, wherever its function is at, so that
    its `finally` blocks run. An async function gets `asyncio.CancelledError` instead."""


def _seconds(delay: float | timedelta | None) -> float | None:
    if isinstance(delay, timedelta):
        delay = delay.total_seconds()
    is_number = isinstance(delay, (int, float)) and not isinstance(delay, bool)
    if delay is not None and not (is_number and 0 <= delay < float("inf")):
        raise ConfigError(f"a delay must be zero or more seconds, not {delay!r}")
    return delay
