"""What wraps sending and running: the base class, and two that are useful as they are."""

from headrace.middleware.capture_errors import CaptureErrors
from headrace.middleware.log_runs import LogRuns
from headrace.middleware.wrapping import JobRun, Middleware, Proceed, Send

__all__ = ["CaptureErrors", "JobRun", "LogRuns", "Middleware", "Proceed", "Send"]
