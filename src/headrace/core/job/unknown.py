"""Jobs and events that the program of this worker does not know, and that of another may."""

from __future__ import annotations

import random

import msgspec

from headrace.core.job.failure import Unfit
from headrace.core.job.history import History, encode_history
from headrace.core.job.outcome import Retried
from headrace.core.job.state import Reason

_FIRST_MS, _MOST_MS = 100, 10_000


class NotKnownHere(Unfit):
    """This worker cannot run it, but one with other code may: it goes back for that one. If none
    comes in time, it is dead for this reason."""


class DeclaredOtherwise(NotKnownHere):
    """The arguments do not fit the task as this worker declares it, and may fit it as another one
    does."""


class BadArguments(Unfit):
    """The arguments do not fit the task as this worker declares it. Whoever can ask whether another
    one declares it otherwise does, before the job is dead."""

    def __init__(self, text: str) -> None:
        super().__init__(Reason.BAD_ARGUMENTS, text)


def back_for_others(
    history: History,
    delivered: int,
    now_ms: int,
    after_ms: int,
    rng: random.Random | None = None,
) -> Retried | None:
    """The outcome of a job that a worker does not know: it waits, longer each time, and this
    delivery does not count. None if nobody has known it for `after_ms`."""
    since = history.unknown_since_ms or now_ms
    waited = max(0, now_ms - since)
    if waited >= after_ms:
        return None
    # In proportion to the wait so far: no count is needed. Spread, so that one worker that looks
    # first does not meet all of them again.
    delay = min(max(waited // 4, _FIRST_MS), _MOST_MS)
    delay = round(delay * (rng or random).uniform(0.5, 1.0))
    moved = msgspec.structs.replace(
        history,
        deliveries=history.deliveries + delivered - 1,
        crashes=history.crashes + delivered - 1,
        unknown_since_ms=since,
    )
    return Retried(max(1, min(delay, after_ms - waited)), encode_history(moved), deferred=True)
