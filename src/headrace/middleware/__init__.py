"""What wraps sending and running: the base class, and two that are useful as they are."""

from headrace.client.job import Send, SendMany
from headrace.client.topic.publication import Publication, Publish
from headrace.middleware.capture_errors import CaptureErrors
from headrace.middleware.log_runs import LogRuns
from headrace.middleware.views import JobRun, Received
from headrace.middleware.wrapping import Middleware, Proceed

__all__ = [
    "CaptureErrors",
    "JobRun",
    "LogRuns",
    "Middleware",
    "Proceed",
    "Publication",
    "Publish",
    "Received",
    "Send",
    "SendMany",
]
