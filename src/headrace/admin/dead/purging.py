"""Purging dead jobs, with what is kept of them outside of the store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from headrace.admin.bodies import opened
from headrace.client.send.offloading import discard

if TYPE_CHECKING:
    from headrace.admin.app import AdminApp
    from headrace.core.job.ids import JobId
    from headrace.store.contract import Store

Purge = Callable[[str, Sequence["JobId"]], Awaitable[list[bool]]]


def purging(app: AdminApp, store: Store) -> Purge:
    """The verb of the store, which also deletes payloads if tasks of the app say how."""
    if not any(task.offload is not None for task in app.tasks.values()):
        return store.purge

    async def purge(queue: str, job_ids: Sequence[JobId]) -> list[bool]:
        seen = await store.get(queue, job_ids, bodies=True)
        purged = await store.purge(queue, job_ids)
        for snapshot, is_gone in zip(seen, purged, strict=True):
            envelope = opened(snapshot.envelope) if snapshot and is_gone else None
            task = app.tasks.get(envelope.task) if envelope else None
            if snapshot is not None and task is not None and task.offload is not None:
                await discard(task.offload, [snapshot.envelope])
        return purged

    return purge
