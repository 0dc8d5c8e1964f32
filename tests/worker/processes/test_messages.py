"""What a function raises in a task process is judged as if it had run in the worker."""

from __future__ import annotations

import inspect

import pytest

from headrace import errors
from headrace.core.job.failure import Unfit
from headrace.core.job.retry import RemoteError
from headrace.core.job.state import Reason
from headrace.core.job.unknown import BadArguments
from headrace.errors import BatchError, Defer, Reject, RetryLater, TaskCancelled, TaskControl
from headrace.worker.processes.child import _reply
from headrace.worker.processes.messages import error_of

RAISED: list[BaseException] = [
    Defer(5),
    Reject("why"),
    RetryLater(5, "why"),
    TaskCancelled(),
    Unfit(Reason.EXPIRED, "why"),
    BadArguments("why"),
]


@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
def test_what_decides_an_outcome_arrives_as_it_is(error: BaseException) -> None:
    arrived = error_of(_reply(error))
    assert type(arrived) is type(error)
    assert getattr(arrived, "delay", None) == getattr(error, "delay", None)
    assert str(arrived) == str(error)


def test_any_other_error_arrives_by_its_name() -> None:
    arrived = error_of(_reply(ValueError("why")))
    assert isinstance(arrived, RemoteError)
    assert arrived.names[0] == "ValueError"


def test_every_task_control_has_a_message() -> None:
    """But for those of batches, which never run in a process."""
    kinds = {each for _, each in inspect.getmembers(errors, inspect.isclass)}
    controls = {each for each in kinds if issubclass(each, TaskControl)} - {TaskControl, BatchError}
    assert controls <= {type(error) for error in RAISED}
