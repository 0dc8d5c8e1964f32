"""What people ask and do about queues, jobs and topics. The command line uses nothing else."""

from headrace.admin.admin import Admin
from headrace.admin.bodies import EventInfo
from headrace.admin.cancelling import CancelReport
from headrace.admin.dead import DeadInfo
from headrace.admin.events import JobEvent
from headrace.admin.jobs import JobDetail, JobPage, JobSummary
from headrace.admin.queues import QueueInfo
from headrace.admin.stats import MinuteStats
from headrace.admin.topics import GroupInfo, ShardInfo, StoppedKeyInfo, TopicInfo
from headrace.admin.workers import WorkerInfo

__all__ = [
    "Admin",
    "CancelReport",
    "DeadInfo",
    "EventInfo",
    "GroupInfo",
    "JobDetail",
    "JobEvent",
    "JobPage",
    "JobSummary",
    "MinuteStats",
    "QueueInfo",
    "ShardInfo",
    "StoppedKeyInfo",
    "TopicInfo",
    "WorkerInfo",
]
