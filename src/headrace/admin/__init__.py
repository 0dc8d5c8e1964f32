"""What people ask and do about queues and jobs. The command line uses nothing else."""

from headrace.admin.admin import Admin
from headrace.admin.dead import DeadInfo
from headrace.admin.queues import QueueInfo

__all__ = ["Admin", "DeadInfo", "QueueInfo"]
