"""Jobs that die inside the store, without a run: no worker has an outcome of them to log."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from headrace.core.job.ids import JobId


class Deaths(msgspec.Struct, frozen=True):
    """Jobs of one task that one step of the store has made dead, all for the same reason."""

    queue: str
    reason: str
    task: str
    """Empty if their bytes do not say."""
    why: bytes
    """After a dead parent the encoded `Cause`, with a failed key that key, else a text."""
    job_id: JobId
    """One of them."""
    count: int = 1


DeathListener = Callable[[Sequence[Deaths]], None]


class DeathCount:
    """Counts deaths that are alike together: there may be thousands in one step."""

    def __init__(self) -> None:
        self._alike: dict[tuple[str, str, str, bytes], tuple[JobId, int]] = {}

    def add(self, queue: str, reason: str, task: str, why: bytes, job_id: JobId) -> None:
        kind = (queue, reason, task, why)
        first, count = self._alike.get(kind, (job_id, 0))
        self._alike[kind] = first, count + 1

    @property
    def all(self) -> list[Deaths]:
        return [Deaths(*kind, *counted) for kind, counted in self._alike.items()]
