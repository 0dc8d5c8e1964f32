"""`app.admin`: a method for each question and action. Most nouns have a file of their own; here are
the store, the workers, the counters and the records."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from headrace.admin.actions import Action, ActionRecorder, read_actions
from headrace.admin.context import AdminContext
from headrace.admin.dead.dead_admin import DeadAdmin
from headrace.admin.jobs.events import JobEvent, read_events
from headrace.admin.jobs.flows import FlowAdmin
from headrace.admin.jobs.reschedule import RescheduleAdmin
from headrace.admin.queues import QueueAdmin
from headrace.admin.redaction import Redact, redaction_of
from headrace.admin.schedules import ScheduleAdmin
from headrace.admin.stats import MinuteStats, read_stats
from headrace.admin.topics.topic_admin import TopicAdmin
from headrace.admin.workers import WorkerAdmin, read_supervisors
from headrace.core import bounds as limits
from headrace.core.address import without_password
from headrace.core.clock import to_datetime
from headrace.core.queue_names import group_source

if TYPE_CHECKING:
    from headrace.core.workers import SupervisorRecord


@dataclass(frozen=True, slots=True)
class StoreInfo:
    """A store that has answered."""

    kind: str
    """Such as `Redis`."""
    version: str
    """That of the server or library."""
    url: str
    """Without its password."""
    namespace: str
    """The app's."""
    risks: tuple[str, ...]
    """Settings that may lose jobs, or show them to others, each as a sentence."""
    seconds: float
    """How long it took to answer."""
    ahead: float
    """Seconds by which its clock is ahead of the one here; negative if behind."""
    unread: tuple[str, ...] = ()
    """Settings that matter and that the store's user may not read, each as a sentence."""


class StoreAdmin(AdminContext):
    """Questions about the store itself."""

    async def now(self) -> datetime:
        """The time by the store's clock, which is the one that counts."""
        return to_datetime(await (await self._store()).time_ms())

    async def store(self) -> StoreInfo:
        """Kind, version and settings of the store; `StoreError` if it does not answer."""
        store = await self._store()
        began = time.monotonic()
        described = await store.describe()
        took = time.monotonic() - began
        asked_ms = self._app.clock.now_ms()
        time_ms = await store.time_ms()
        # Compared with the middle: the answer travelled for about half of the time.
        ahead = (time_ms - (asked_ms + self._app.clock.now_ms()) / 2) / 1000
        return StoreInfo(
            described.kind,
            described.version,
            without_password(self._app.url),
            self._app.namespace,
            described.risks,
            took,
            ahead,
            described.unread,
        )


class Admin(
    QueueAdmin,
    FlowAdmin,
    RescheduleAdmin,
    DeadAdmin,
    ScheduleAdmin,
    TopicAdmin,
    WorkerAdmin,
    StoreAdmin,
):
    """What people ask and do about the queues, jobs and topics of one app's store. Where a queue is
    taken, `billing@orders` is the group `billing` of the topic `orders`, in all shards."""

    def by(self, actor: str, *, address: str = "") -> Admin:
        """An admin that records every action as done by `actor`, a person or a program, at
        `address` if that is known. `actions` lists the records. The logger `headrace.actions` has
        them too, with the fields `actor`, `address`, `verb`, `target`, `detail` and `outcome`.
        Changed arguments are recorded as the redact hooks leave them.

        Args:
            actor: A person or a program.
            address: From where, if that is known.
        """
        return Admin(self._app, ActionRecorder(actor, address), self._redaction)

    def redacted(self, redact: Redact | None = None) -> Admin:
        """An admin whose answers leave out what the app's `redact` hides, and this one, as far as
        that can be recognised; a search does not find it either. Actions apply to the same jobs.
        The dashboard, the command line and the terminal view use it.

        Args:
            redact: A function of the task's name and the value; the app's alone unless said.
        """
        return Admin(self._app, self._recorder, redaction_of(self._app, redact))

    @property
    def is_redacted(self) -> bool:
        """Whether a hook hides anything."""
        return self._redaction.active

    async def actions(self, limit: int = 100, before: str = "") -> list[Action]:
        """Actions recorded with `by`, the latest first, failed ones included; with `before`, an id,
        only earlier ones. They are kept for the app's `actions_kept`, 90 days by default, and no
        more than 100,000.

        Args:
            limit: How many at most.
            before: The id of an action: only earlier ones.
        """
        limits.check_count("limit", limit)
        return await read_actions(await self._store(), self._app.actions_kept, limit, before)

    async def supervisors(self) -> list[SupervisorRecord]:
        """Processes that scale workers (`headrace worker -p 1..8`), each with its latest decision,
        by host and pid."""
        return await read_supervisors(await self._store())

    async def events(
        self, queue: str, after: str = "", *, follow: bool = False
    ) -> AsyncGenerator[JobEvent, None]:
        """What happened to the jobs of a queue, from the oldest event that is kept, or after the
        cursor of one that was read before; `$` is now. `follow` waits for more, for ever. If
        events after the cursor are not kept any more, the first one is `lost`. The events of each
        shard of a group are in order.

        Args:
            queue: A queue, or a group such as `billing@orders`.
            after: The cursor of an event, or `$` for now; the oldest kept unless said.
            follow: Whether to wait for more, for ever.
        """
        store, names = await self._store(), await self._queue_names(queue)
        async with aclosing(read_events(store, names, after, follow=follow)) as events:
            async for event in events:
                detail = self._redaction.detail(event.detail, event.task)
                yield event if detail == event.detail else replace(event, detail=detail)

    async def stats(
        self,
        minutes: int = 60,
        queue: str | Sequence[str] | None = None,
        *,
        now: datetime | None = None,
        most: int | None = None,
    ) -> list[MinuteStats]:
        """Counters of the last minutes, the running one included, for each task with any in each
        queue, group or shard, or in the named queues. They are kept for a day. Two calls to the
        store if queues are named; one less with `now`, an answer of `now()`. Without names, with
        `most`, of that many queues, the first by name, and of all groups.

        Args:
            minutes: How many, up to a day.
            queue: A queue or a group, or a list of those; all unless said.
            now: An answer of `now()`, which saves asking again.
            most: How many queues are read if none is named; all unless said.
        """
        limits.check_count("minutes", minutes)
        now_ms = None if now is None else int(now.timestamp() * 1000)
        names = await self._sources_named(queue)
        if queue is None and most is not None:
            groups = [name for name in names if group_source(name)]
            names = [*[name for name in names if not group_source(name)][:most], *groups]
        return await read_stats(await self._store(), names, minutes, now_ms)
