"""What all parts of the admin share: the app, its store, and the names of queues and groups."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from headrace.admin.actions import ActionLog, ActionRecorder, PendingAction
from headrace.admin.pages import Walk
from headrace.admin.redaction import CLEAR, Redaction, redaction_of
from headrace.core import bounds as limits
from headrace.core.queue_names import group_queue, group_source, is_log, log_source
from headrace.errors import ConfigError, GroupNotFound, HeadraceError, TopicNotFound

if TYPE_CHECKING:
    from headrace.admin.app import AdminApp
    from headrace.admin.filters import JobFilter
    from headrace.core.job.ids import JobId
    from headrace.store.contract import Store

_MOST_ACTOR = 200


class AdminContext:
    """The base of all parts of the admin. Caches nothing: each call asks the store."""

    def __init__(
        self, app: AdminApp, recorder: ActionRecorder | None = None, redaction: Redaction = CLEAR
    ) -> None:
        self._app = app
        self._recorder = recorder
        self._redaction = redaction
        self._action: PendingAction | None = None

    def _acting(self, action: PendingAction) -> Self:
        """A copy for one action, in which its method can note what it changes."""
        acting = copy.copy(self)
        acting._action = action
        return acting

    @property
    def _actor(self) -> str:
        """Who acts, in few words; empty if that is not known."""
        return "" if self._recorder is None else self._recorder.actor[:_MOST_ACTOR]

    @property
    def _action_log(self) -> ActionLog:
        return ActionLog(self._store, self._app.actions_kept)

    @property
    def _redaction_of_records(self) -> Redaction:
        """For records, which others read: they always hide what the app hides."""
        if self._recorder is None or self._redaction.active:
            return self._redaction
        return redaction_of(self._app)

    async def _prepared_for_records(self) -> Redaction:
        """The same, for names too; as far as the store answers: what fails is recorded as well."""
        redaction = self._redaction_of_records
        if redaction.active:
            with suppress(HeadraceError):
                await redaction.prepare((await self._app.session()).store)
        return redaction

    def _edited(self, task: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        """Note changed arguments of a job for the record, if there is one."""
        if self._action is not None:
            self._action.edited(task, old, new, self._redaction_of_records)

    async def _queue_names(self, only: str | None = None) -> list[str]:
        """All ordinary queues; or those that a name stands for: several for a group whose topic has
        shards."""
        if only is not None:
            return await self._queues_named(await self._checked(only))
        known = await (await self._store()).queues()
        return sorted({*known, *self._app.queues})

    async def _checked(self, queue: str) -> str:
        """A valid name of a queue; or an invalid one that is in the store all the same, so that
        people can see it."""
        try:
            return limits.check_name("queue", queue)
        except ConfigError:
            if queue not in await (await self._store()).queues():
                raise
            return queue

    async def _sources(self, only: str | None = None) -> list[str]:
        """As `_queue_names`; without a name, also the queues of all groups."""
        names = await self._queue_names(only)
        return names if only is not None else [*names, *await self._group_queues()]

    async def _sources_named(self, only: str | Sequence[str] | None) -> list[str]:
        """As `_sources`, for one name or several."""
        if only is None or isinstance(only, str):
            return await self._sources(only)
        found = [name for each in only for name in await self._queue_names(each)]
        return list(dict.fromkeys(found))

    async def _sources_of(self, job_ids: Sequence[JobId], only: str | None = None) -> list[str]:
        """Those of `_sources` that may hold any of these jobs."""
        names, store = await self._sources(only), await self._store()
        if len(job_ids) >= len(names):
            return names
        known = {name for job_id in job_ids for name in await store.locate(names, job_id)}
        return [name for name in names if name in known]

    async def _walk(self, only: str | None, *, bounded: bool) -> Walk:
        """A walk through a queue or a group, or through all queues and groups."""
        names, store = await self._queue_names(only), await self._store()
        return Walk(store, names, await store.logs() if only is None else [], bounded=bounded)

    async def _group_queues(self) -> list[str]:
        """The queues of all groups of all topics, in each shard."""
        store = await self._store()
        logs = await store.logs()
        found = await store.groups(logs) if logs else {}
        return [f"{group.name}{log}" for log, groups in found.items() for group in groups]

    async def _with_group(self, wanted: JobFilter) -> JobFilter:
        """The filter. A task such as `orders/billing`, as logs name the handler of a group, stands
        for the queue of that group."""
        topic, slash, group = (wanted.task or "").rpartition("/")
        queue = group_queue(topic, group)
        if not slash or wanted.queue not in (None, queue):
            return wanted
        if queue not in await self._group_queues():
            return wanted
        return replace(wanted, queue=queue, task=None)

    async def _queues_named(self, name: str) -> list[str]:
        if is_log(name):
            raise ConfigError(
                f"{name!r} is a topic's log, which all its groups share: name a group, such as "
                f"'billing{name}'"
            )
        source = group_source(name)
        if source is None:
            return [name]
        queues = await self._queues_of(source.topic, source.group)
        # With a number, the name is that of one shard.
        if name == group_queue(source.topic, source.group):
            return queues
        if name not in queues:
            raise GroupNotFound(name)
        return [name]

    async def _queues_of(self, topic: str, group: str) -> list[str]:
        """The queues of a group in all shards that have it, or where the app declares it."""
        store = await self._store()
        declared = self._app.topics.get(topic)
        expected = declared.logs if declared and group in declared.subscriptions else ()
        found = await store.groups(await self._logs_of(topic))
        queues = [
            f"{group}{log}"
            for log, groups in found.items()
            if log in expected or any(each.name == group for each in groups)
        ]
        if not queues:
            raise GroupNotFound(group_queue(topic, group))
        return queues

    async def _logs_of(self, topic: str) -> list[str]:
        """The logs of a topic, existing or declared, in the order of its shards."""
        logs = (await self._logs_by_topic()).get(topic)
        if not logs:
            raise TopicNotFound(topic)
        return logs

    async def _logs_by_topic(self) -> dict[str, list[str]]:
        """The logs of all topics, in the order of their shards."""
        logs = set(await (await self._store()).logs())
        logs.update(log for topic in self._app.topics.values() for log in topic.logs)
        found: dict[str, list[str]] = {}
        for log in sorted(logs, key=log_source):
            found.setdefault(log_source(log)[0], []).append(log)
        return found

    async def _store(self) -> Store:
        store = (await self._app.session()).store
        await self._redaction.prepare(store)
        return store
