"""Why an event is not handled, in a sentence for each group that has it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.admin.jobs.why import Why
from headrace.core.job import ids
from headrace.core.job.ids import JobId
from headrace.core.job.state import Reason
from headrace.core.queue_names import GroupSource, group_source, log_source
from headrace.errors import EventNotFound
from headrace.store.topics import Position, StoppedKey

if TYPE_CHECKING:
    from headrace.store.contract import Store

_STOPPED_KEYS = 100_000


class EventWhy(Why):
    """Explains the state of one event in one group, from a snapshot of it."""

    _noun = "event"
    _knows = "can read its version"

    @property
    def _source(self) -> GroupSource | None:
        return group_source(self._queue)

    @property
    def _runner(self) -> None:
        """Events are in one line, wherever they are handled."""

    @property
    def _where(self) -> str:
        return "the group" if self._source else f"topic {log_source(self._queue)[0]!r}"

    async def answer(self) -> str:
        sentence = await super().answer()
        if self._source is None:
            return sentence
        begin = f"In group {self._source.group!r} of topic {self._source.topic!r} "
        return begin + sentence[0].lower() + sentence[1:]

    async def _scheduled(self) -> str:
        if self._source:
            return await super()._scheduled()
        sentence = (await super()._scheduled()).removesuffix(".")
        return f"{sentence}; then it is added to {self._where}."

    async def _waiting(self) -> str:
        stopped = await self._stopped()
        if stopped and stopped.event != self._key:
            return f"It is waiting: {self._behind(stopped)}."
        return await super()._waiting()

    async def _lane(self) -> str:
        stopped = await self._stopped()
        if stopped:
            return self._behind(stopped)
        return (
            f"events of its key {self._key_shown!r} are handled one after the other, and others "
            "are before it"
        )

    async def _dead(self) -> str:
        sentence = (await super()._dead()).removesuffix(".")
        stopped = await self._stopped()
        if stopped and stopped.event == self._key:
            later = "wait" if stopped.state == "blocked" else "go dead too"
            return (
                f"{sentence}. Its key {self._key_shown!r} is {_WORDS[stopped.state]}: later events "
                f"of it {later} until {_UNTIL[stopped.state]}."
            )
        if self._seen.reason != Reason.KEY_FAILED:
            return f"{sentence}."
        if stopped:
            return f"{sentence}: {self._behind(stopped)}."
        return f"{sentence}: an earlier event of its key {self._key_shown!r} had gone dead."

    @property
    def _key_shown(self) -> str:
        return self._masks.name(self._job.key or "")

    async def _stopped(self) -> StoppedKey | None:
        """The event's key, if the group has stopped it."""
        key = self._job.key
        if key is None or self._source is None:
            return None
        found = await self._store.stopped_keys(self._queue, _STOPPED_KEYS)
        return next((each for each in found if each.key == key), None)

    def _behind(self, stopped: StoppedKey) -> str:
        """Why an event of a stopped key is not handled."""
        until = _UNTIL[stopped.state].replace("it is", "that one is")
        return (
            f"its key {self._key_shown!r} is {_WORDS[stopped.state]}, because event "
            f"{ids.to_text(stopped.event)} went dead, until {until}"
        )


_WORDS = {"blocked": "stopped", "failed": "failed"}
_UNTIL = {"blocked": "it is replayed or purged, or the key is freed", "failed": "the key is freed"}


async def why_logged(store: Store, logs: Sequence[str], job_id: JobId) -> str | None:
    """Why an event is in no group, although it is in a log; None if it is in none."""
    for log in await store.locate(logs, job_id):
        try:
            await store.position(log, Position("event", event=job_id))
        except EventNotFound:
            continue
        topic, groups = log_source(log)[0], (await store.groups([log]))[log]
        if not groups:
            return f"It is in topic {topic!r}, which has no groups (yet)."
        names = ", ".join(repr(group.name) for group in groups)
        return (
            f"It is in topic {topic!r}, and nothing is left to do: each of its groups ({names}) "
            "is done with it, or began after it."
        )
    return None
