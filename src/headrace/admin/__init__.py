"""What people ask and do about queues, jobs and topics. The command line uses nothing else."""

from headrace.admin.actions import Action
from headrace.admin.admin import Admin, StoreInfo
from headrace.admin.bodies import TooLargeToShow
from headrace.admin.dead.dead_groups import DeadGroup, DeadGroups
from headrace.admin.dead.dead_info import DeadInfo, DeadPage
from headrace.admin.filters import JobFilter
from headrace.admin.jobs.cancel_request import CancelReport
from headrace.admin.jobs.cause import JobCause
from headrace.admin.jobs.events import JobEvent
from headrace.admin.jobs.flow_survey import FlowInfo, FlowJobInfo
from headrace.admin.jobs.summary import JobDetail, JobPage, JobSummary
from headrace.admin.queues import QueueInfo, QueuePage
from headrace.admin.schedules import ScheduleRun, TickRun
from headrace.admin.stats import MinuteStats
from headrace.admin.topics.event_info import EventInfo
from headrace.admin.topics.topic_info import (
    GroupCounts,
    GroupInfo,
    ShardInfo,
    StoppedKeyInfo,
    TopicInfo,
)
from headrace.admin.workers import RunInfo, WorkerInfo

__all__ = [
    "Action",
    "Admin",
    "CancelReport",
    "DeadGroup",
    "DeadGroups",
    "DeadInfo",
    "DeadPage",
    "EventInfo",
    "FlowInfo",
    "FlowJobInfo",
    "GroupCounts",
    "GroupInfo",
    "JobCause",
    "JobDetail",
    "JobEvent",
    "JobFilter",
    "JobPage",
    "JobSummary",
    "MinuteStats",
    "QueueInfo",
    "QueuePage",
    "RunInfo",
    "ScheduleRun",
    "ShardInfo",
    "StoppedKeyInfo",
    "StoreInfo",
    "TickRun",
    "TooLargeToShow",
    "TopicInfo",
    "WorkerInfo",
]
