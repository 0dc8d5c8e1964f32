"""What a step takes from the one before it, for type checkers alone."""

from __future__ import annotations

from typing import Any, Generic, Literal, Protocol, TypeVar

from headrace.core.task.call import Call, R_co, SentJob, Step

A = TypeVar("A")
A_contra = TypeVar("A_contra", contravariant=True)


class Takes(Protocol[A_contra, R_co]):
    """A step that can be given an `A`, and then gives an `R`: for type checkers."""

    def _given(self, first: A_contra, /) -> R_co: ...


class OpenCall(Generic[A, R_co]):
    """A call without its first argument, an `A`, which a flow has to give it: for type checkers,
    which refuse to send it by itself. It is a `Call`."""

    def after(
        self, *parents: Step[Any] | SentJob, if_failed: Literal["fail", "run"] = "fail"
    ) -> Call[R_co]:
        """See `Call.after`."""
        raise NotImplementedError

    def _given(self, first: A, /) -> R_co:
        raise NotImplementedError
