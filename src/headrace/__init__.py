"""Background jobs and event topics for Python functions."""

from headrace.app import Headrace
from headrace.client.context import Context, current
from headrace.client.flow import FlowJob
from headrace.client.job import AttemptInfo, Job, JobInfo
from headrace.client.once import Once
from headrace.client.schedule import Schedule
from headrace.client.task import Task
from headrace.client.watch import JobUpdate
from headrace.core.call import Call
from headrace.core.flow import Flow, chain, group
from headrace.core.job import Reason, State
from headrace.core.progress import Progress
from headrace.core.retry import Retry
from headrace.errors import (
    ArgumentError,
    BatchError,
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
    ScheduleNotFound,
    SendError,
    StoreError,
    StoreFull,
    StoreMismatch,
    StoreUnavailable,
    TaskCancelled,
)
from headrace.middleware.wrapping import Middleware
from headrace.worker.ending import WorkerOutcome

__all__ = [
    "ArgumentError",
    "AttemptInfo",
    "BatchError",
    "Call",
    "ConfigError",
    "Context",
    "Defer",
    "EnqueueUnknown",
    "Flow",
    "FlowJob",
    "Headrace",
    "HeadraceError",
    "Job",
    "JobCancelled",
    "JobError",
    "JobFailed",
    "JobInfo",
    "JobNotFound",
    "JobUpdate",
    "LeaseLost",
    "Middleware",
    "Once",
    "PayloadTooLarge",
    "Progress",
    "Reason",
    "Reject",
    "ResultExpired",
    "ResultTimeout",
    "ResultUnreadable",
    "Retry",
    "RetryLater",
    "Schedule",
    "ScheduleNotFound",
    "SendError",
    "State",
    "StoreError",
    "StoreFull",
    "StoreMismatch",
    "StoreUnavailable",
    "Task",
    "TaskCancelled",
    "WorkerOutcome",
    "chain",
    "current",
    "group",
]
