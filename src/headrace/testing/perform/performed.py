"""How one run ended, in a test."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, Literal, TypeVar

from headrace.testing.perform.recorded_context import RecordedContext
from headrace.testing.sent.sent import Sent

T = TypeVar("T")

PerformedState = Literal["done", "retried", "deferred", "dead", "cancelled", "lost", "left"]


class Performed(Generic[T]):
    """How one run ended. `state` is "done", with its `result`; "retried" or "deferred", with the
    `delay` in seconds after which it would run again; "dead", with the `reason`; or "cancelled". An
    event can also be "lost", if its group does not retry, and "left", if its function should have
    settled it and did not. `error` is what the function raised."""

    def __init__(
        self,
        state: PerformedState,
        context: RecordedContext,
        *,
        result: T | None = None,
        delay: float | None = None,
        reason: str = "",
        error: BaseException | None = None,
        sent: Sequence[Sent] = (),
    ) -> None:
        self.state: PerformedState = state
        self.result = result
        """What the function returned, after its way through the codec."""
        self.delay = delay
        self.reason = reason
        """Why it is dead: "not_retryable", "retries_exhausted", "rejected", "timed_out" and so on;
        else empty."""
        self.error = error
        self.context = context
        """The context that the function had: `reported`, `logged` and `once_values` say what it
        did with it."""

        self.sent = list(sent)
        """The jobs that it sent."""

    @property
    def done(self) -> bool:
        """Whether the function returned."""
        return self.state == "done"

    @property
    def retried(self) -> bool:
        """Whether it failed, and would run again after `delay` seconds."""
        return self.state == "retried"

    @property
    def deferred(self) -> bool:
        """Whether it would run again after `delay` seconds without having failed."""
        return self.state == "deferred"

    @property
    def dead(self) -> bool:
        """Whether it was given up, for `reason`."""
        return self.state == "dead"

    @property
    def rejected(self) -> bool:
        """Whether it is dead because the function raised `Reject`."""
        return self.reason == "rejected"

    @property
    def cancelled(self) -> bool:
        """Whether it ended because someone cancelled it."""
        return self.state == "cancelled"

    def __repr__(self) -> str:
        said = {
            "done": f" {self.result!r}",
            "retried": f" in {self.delay:g} s" if self.delay else " at once",
            "deferred": f" by {self.delay:g} s" if self.delay else "",
            "dead": f" ({self.reason})",
        }.get(self.state, "")
        why = "" if self.error is None else f": {self.error!r}"
        return f"<Performed {self.state}{said}{why}>"
