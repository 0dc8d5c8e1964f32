"""Background jobs and event topics for Python functions."""

from headrace.app import Headrace
from headrace.client.context import Context, current
from headrace.client.job import AttemptInfo, Job, JobInfo
from headrace.client.task import Task
from headrace.core.call import Call
from headrace.core.job import Reason, State
from headrace.core.retry import Retry
from headrace.errors import (
    ArgumentError,
    ConfigError,
    Defer,
    EnqueueUnknown,
    HeadraceError,
    JobCancelled,
    JobError,
    JobFailed,
    JobNotFound,
    LeaseLost,
    PayloadTooLarge,
    Reject,
    ResultExpired,
    ResultTimeout,
    ResultUnreadable,
    RetryLater,
    SendError,
    StoreError,
    StoreFull,
    StoreMismatch,
    StoreUnavailable,
)
from headrace.worker.ending import WorkerOutcome

__all__ = [
    "ArgumentError",
    "AttemptInfo",
    "Call",
    "ConfigError",
    "Context",
    "Defer",
    "EnqueueUnknown",
    "Headrace",
    "HeadraceError",
    "Job",
    "JobCancelled",
    "JobError",
    "JobFailed",
    "JobInfo",
    "JobNotFound",
    "LeaseLost",
    "PayloadTooLarge",
    "Reason",
    "Reject",
    "ResultExpired",
    "ResultTimeout",
    "ResultUnreadable",
    "Retry",
    "RetryLater",
    "SendError",
    "State",
    "StoreError",
    "StoreFull",
    "StoreMismatch",
    "StoreUnavailable",
    "Task",
    "WorkerOutcome",
    "current",
]
