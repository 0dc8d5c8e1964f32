"""The error of a sender whose jobs were refused."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.client.send.unsent import texts
from headrace.core.bounds import Overflow
from headrace.core.job.constraints import KEY_LANE
from headrace.core.job.parcel import Parcel
from headrace.errors import KeyFull, QueueFull
from headrace.store.queue_values import QueueBound


def full_error(
    queue: str, bound: QueueBound, refused: Sequence[Parcel], overflow: Overflow, is_full: bool
) -> QueueFull:
    """The error of jobs that were refused: by the queue if that `is_full`, else by their keys."""
    if is_full:
        return QueueFull(queue, bound.most, texts(refused), overflow)
    key = refused[0].constraints.lane.removeprefix(KEY_LANE)
    return KeyFull(queue, key, bound.most_per_key, texts(refused))
