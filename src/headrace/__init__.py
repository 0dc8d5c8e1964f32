"""Background jobs and event topics for Python functions."""

from headrace.app import Headrace
from headrace.audit.record import AuditRecord
from headrace.client.attempts import AttemptInfo
from headrace.client.context import Context, current
from headrace.client.ends.listener import WorkerEvent
from headrace.client.fallback import UnknownJob
from headrace.client.flow_job import FlowJob, FlowUpdate
from headrace.client.include.tasks import Tasks
from headrace.client.job import Job
from headrace.client.job_info import JobInfo
from headrace.client.once import Once
from headrace.client.schedule import Schedule
from headrace.client.task import Task
from headrace.client.topic.dead_event import DeadEvent
from headrace.client.topic.delivery import Delivery
from headrace.client.topic.publication import PublishOutcome, PublishResult, Unpublished
from headrace.client.topic.subscription import Subscription
from headrace.client.topic.topic import Topic
from headrace.client.watch import JobUpdate
from headrace.core.flow.counts import FlowCounts
from headrace.core.flow.flow import Flow, chain, group
from headrace.core.job.progress import Progress
from headrace.core.job.retry import Retry
from headrace.core.job.state import Reason, State
from headrace.core.payload.codecs import Codec, EventCodec
from headrace.core.payload.offload import Offload
from headrace.core.scaling.by_load import scale_by_load
from headrace.core.scaling.snapshot import Load, ScalingSnapshot
from headrace.core.task.call import Call
from headrace.core.topic.event import Event
from headrace.core.version import VERSION as __version__  # noqa: F401
from headrace.errors import (
    ArgumentError,
    AuditError,
    BatchError,
    ConfigError,
    Defer,
    DeliveryUsed,
    EnqueueUnknown,
    EventError,
    EventNotFound,
    GroupNotFound,
    HeadraceError,
    JobCancelled,
    JobError,
    JobFailed,
    JobNotFound,
    KeyFull,
    LeaseLost,
    OffloadError,
    PayloadTooLarge,
    ProcessDied,
    QueueFull,
    QueueNotFound,
    Reject,
    ResultExpired,
    ResultLost,
    ResultTimeout,
    ResultUnreadable,
    RetryLater,
    ScheduleNotFound,
    SendError,
    StoreError,
    StoreFull,
    StoreMismatch,
    StoreRefused,
    StoreUnavailable,
    TaskCancelled,
    TopicFull,
    TopicNotFound,
    WorkerNotFound,
)
from headrace.exposition.json_logs import JsonFormatter
from headrace.exposition.tracing.tracing import Tracing
from headrace.middleware.wrapping import Middleware
from headrace.web import dashboard
from headrace.worker.worker_outcome import WorkerOutcome

__all__ = [
    "ArgumentError",
    "AttemptInfo",
    "AuditError",
    "AuditRecord",
    "BatchError",
    "Call",
    "Codec",
    "ConfigError",
    "Context",
    "DeadEvent",
    "Defer",
    "Delivery",
    "DeliveryUsed",
    "EnqueueUnknown",
    "Event",
    "EventCodec",
    "EventError",
    "EventNotFound",
    "Flow",
    "FlowCounts",
    "FlowJob",
    "FlowUpdate",
    "GroupNotFound",
    "Headrace",
    "HeadraceError",
    "Job",
    "JobCancelled",
    "JobError",
    "JobFailed",
    "JobInfo",
    "JobNotFound",
    "JobUpdate",
    "JsonFormatter",
    "KeyFull",
    "LeaseLost",
    "Load",
    "Middleware",
    "Offload",
    "OffloadError",
    "Once",
    "PayloadTooLarge",
    "ProcessDied",
    "Progress",
    "PublishOutcome",
    "PublishResult",
    "QueueFull",
    "QueueNotFound",
    "Reason",
    "Reject",
    "ResultExpired",
    "ResultLost",
    "ResultTimeout",
    "ResultUnreadable",
    "Retry",
    "RetryLater",
    "ScalingSnapshot",
    "Schedule",
    "ScheduleNotFound",
    "SendError",
    "State",
    "StoreError",
    "StoreFull",
    "StoreMismatch",
    "StoreRefused",
    "StoreUnavailable",
    "Subscription",
    "Task",
    "TaskCancelled",
    "Tasks",
    "Topic",
    "TopicFull",
    "TopicNotFound",
    "Tracing",
    "UnknownJob",
    "Unpublished",
    "WorkerEvent",
    "WorkerNotFound",
    "WorkerOutcome",
    "chain",
    "current",
    "dashboard",
    "group",
    "scale_by_load",
]
