"""The constraints of a task's jobs: what it declares, and what a call changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from headrace.core.bounds import check_label
from headrace.core.clock import to_ms
from headrace.core.job.constraints import KEY_LANE, NO_CONSTRAINTS, Constraints, Gathering, Limit
from headrace.core.task.argument_labels import ArgumentLabels
from headrace.core.task.gathering import key_maker
from headrace.core.task.options import TaskOptions
from headrace.core.task.queue_settings import QueueSettings
from headrace.core.task.rate import task_limit
from headrace.core.task.send_options import SendOptions
from headrace.core.task.signature import Signature
from headrace.core.task.uniqueness import (
    AS_DECLARED,
    NOT_UNIQUE,
    LabelMaker,
    Uniqueness,
    digest,
    unique_name,
)
from headrace.errors import ArgumentError, ConfigError


class CallLabels(msgspec.Struct, frozen=True):
    """Texts made of a call's arguments: its unique name, the keys of its rate and its batch."""

    unique: str = ""
    rate_key: str = ""
    batch_key: str = ""


NO_LABELS = CallLabels()


class TaskConstraints:
    """Makes the constraints of one task's jobs. `queues` holds the settings of queues, and may
    still grow."""

    def __init__(
        self, declared: TaskOptions, signature: Signature, queues: Mapping[str, QueueSettings]
    ) -> None:
        self._task = declared.name
        self._label = declared.label
        self._declared = declared
        self._signature = signature
        self._queues = queues
        self._rate = declared.rate
        self._unique = AS_DECLARED.over(declared.unique)
        self._ttl_ms = to_ms("result_ttl", declared.result_ttl)
        self._gathering = declared.gathering
        self._make_batch_key: LabelMaker | None = None
        if self._gathering is not None and self._gathering.key is not None:
            where, item = f"task {declared.name!r}: ", signature.first
            name = signature.first_name
            self._make_batch_key = key_maker(where, self._gathering.key, name, item)
        self.declares = bool(
            declared.priority
            or self._unique.by
            or declared.rate
            or declared.concurrency
            or declared.gathering
        )
        """Whether each of its jobs has constraints."""
        self.of_arguments = ArgumentLabels(declared, signature, self._make_batch_key)
        """Says which constraints would be others with other arguments."""

    def check(self, options: SendOptions) -> None:
        """Refuse options that would do nothing with this task."""
        where = f"task {self._task!r}: options("
        options.unique.check_call(where, self._declared.unique)
        if options.rate_key and self._rate is None:
            raise ConfigError(f"{where}rate_key=) needs a rate= on the task")
        if options.batch_key and (self._gathering is None or self._gathering.key is None):
            raise ConfigError(f"{where}batch_key=) needs a batch_key= on the task")
        if options.key and self._gathering is not None:
            raise ConfigError(
                f"{where}key=) does not go with a batch that gathers: jobs of one key run one "
                "after the other, and would never meet; batch_key= says which jobs do"
            )

    def labels(
        self,
        options: SendOptions,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        lacks_first_argument: bool,
    ) -> CallLabels:
        """The texts that are made of the arguments. An open call lacks the first argument."""
        unique, rate_key, batch_key = self._uniqueness(options).by, options.rate_key, ""
        if not rate_key and self._declared.rate_key is not None:
            self._check_complete("rate_key", lacks_first_argument)
            rate_key = self._make_label("rate_key", self._declared.rate_key, args, kwargs)
        if self._make_batch_key is not None:
            batch_key = options.batch_key
            if not batch_key:
                self._check_complete("batch_key", lacks_first_argument)
                batch_key = self._make_label("batch_key", self._make_batch_key, args, kwargs)
        if not unique:
            is_any = rate_key or batch_key
            return CallLabels("", rate_key, batch_key) if is_any else NO_LABELS
        if unique is True:
            fingerprint = self._signature.fingerprint(args, kwargs, lacks_first_argument)
            return CallLabels(digest(self._label, fingerprint), rate_key, batch_key)
        if not isinstance(unique, str):
            self._check_complete("unique", lacks_first_argument)
            unique = self._make_label("unique", unique, args, kwargs)
        return CallLabels(unique_name(self._label, unique), rate_key, batch_key)

    def of_job(
        self, queue: str, options: SendOptions, labels: CallLabels, waits: bool = False
    ) -> Constraints:
        """The constraints of a job; `waits` says that it has to wait for others."""
        if not (waits or self.declares or options.constrains or queue in self._queues):
            return NO_CONSTRAINTS
        declared = self._declared
        priority = declared.priority if options.priority is None else options.priority
        lane, width = self._lane(options.key)
        task_lane, task_width = self._task_lane(options.key)
        unique = self._uniqueness(options) if labels.unique else NOT_UNIQUE
        made = Constraints(
            priority=priority,
            lane=lane,
            width=width,
            unique=labels.unique,
            unique_for_ms=unique.for_ms or 0,
            debounced=bool(unique.debounce_ms),
            limits=self._limits(queue, labels),
            task_lane=task_lane,
            task_width=task_width,
            gathering=self._batch(queue, labels.batch_key),
        )
        if made == NO_CONSTRAINTS and not waits:
            return NO_CONSTRAINTS
        made = msgspec.structs.replace(made, ttl_ms=self._ttl_ms)
        return NO_CONSTRAINTS if made == NO_CONSTRAINTS else made

    def delay_ms(self, options: SendOptions, labels: CallLabels) -> int | None:
        """How long a debounced job waits for another; None if it is not debounced."""
        return (self._uniqueness(options).debounce_ms or None) if labels.unique else None

    def _uniqueness(self, options: SendOptions) -> Uniqueness:
        said = options.unique
        return self._unique if said is AS_DECLARED else said.over(self._declared.unique)

    def _lane(self, key: str | None) -> tuple[str, int]:
        """The lane that a job enters first, and how many jobs it lets in."""
        width = self._declared.concurrency
        if key:
            return f"{KEY_LANE}{key}", self._declared.key_concurrency or width or 1
        return ("", 1) if width is None or self._rate else (f"task:{self._label}", width)

    def _task_lane(self, key: str | None) -> tuple[str, int]:
        """The lane of the task, for jobs that wait for something else first: for others of their
        key or for their rate, which may be over for a few of them only."""
        width = self._declared.concurrency
        if width is None or (self._declared.key_concurrency is None if key else not self._rate):
            return "", 1
        return f"task:{self._label}", width

    def _limits(self, queue: str, labels: CallLabels) -> tuple[Limit, ...]:
        limits: tuple[Limit, ...] = ()
        if self._rate is not None:
            limits = (task_limit(self._rate, self._label, labels.rate_key),)
        settings = self._queues.get(queue)
        if settings is None or settings.limit is None:
            return limits
        return (*limits, settings.limit)

    def _batch(self, queue: str, key: str) -> Gathering | None:
        declared = self._declared
        if declared.gathering is None or declared.batch is None:
            return None
        settings = self._queues.get(queue)
        if settings is not None and (settings.limit or settings.concurrency):
            bound = "rate" if settings.limit else "concurrency"
            raise ConfigError(
                f"task {self._task!r}: a batch that gathers does not go with the {bound} of queue "
                f"{queue!r}, which counts single jobs; give the task a queue of its own"
            )
        return declared.gathering.of_job(self._label, key, declared.batch, declared.max_wait)

    def _check_complete(self, what: str, lacks_first_argument: bool) -> None:
        if lacks_first_argument:
            raise ArgumentError(
                self._task,
                f"{what}= is made of the arguments, and the first one is still to come; "
                f"give it by options({what}=)",
            )

    def _make_label(
        self, what: str, make: LabelMaker, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> str:
        try:
            text = make(*args, **kwargs)
        except Exception as error:
            problem = f"{what}= could not be made: {type(error).__name__}: {error}"
            raise ArgumentError(self._task, problem) from error
        try:
            return check_label(f"what {what}= returned", text)
        except ConfigError as error:
            raise ArgumentError(self._task, str(error)) from None
