"""Which jobs are meant, and finding them a page at a time."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

from headrace.admin.bodies import arguments_of, opened
from headrace.client.job import AttemptInfo
from headrace.core import ids
from headrace.core.ids import JobKey
from headrace.core.job import Envelope, State, decode_past
from headrace.errors import ConfigError
from headrace.store.contract import Sighting

if TYPE_CHECKING:
    from headrace.store.contract import Store
    from headrace.store.values import KeyPage

LIVE = (State.RUNNING, State.WAITING, State.BLOCKED, State.SCHEDULED)
# Envelopes come along, and each may have megabytes.
LOOKED_AT_TOGETHER = 100
_NUMBER = "#"


class JobConditions(TypedDict, total=False):
    """What must be true of jobs that are meant; nothing said is nothing asked."""

    state: State | str | None
    task: str | None
    flow: str | None
    """The id of a flow's last job, for all jobs of that flow."""
    search: str | None
    """A text in the id, the arguments or an error, in small letters or capitals."""


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Conditions on what a job's bytes say."""

    task: str | None = None
    flow: JobKey = b""
    search: str = ""

    @classmethod
    def of(
        cls, task: str | None = None, flow: str | None = None, search: str | None = None
    ) -> JobFilter:
        return cls(task, b"" if flow is None else ids.to_key(flow), (search or "").casefold())

    @property
    def is_open(self) -> bool:
        """Whether every job fits, so that none has to be looked at."""
        return self.task is None and not self.flow and not self.search

    def matches(self, key: JobKey, sighting: Sighting) -> bool:
        if self.is_open:
            return True
        envelope = opened(sighting.envelope)
        if self.task is not None and (envelope is None or envelope.task != self.task):
            return False
        if (
            self.flow
            and key != self.flow
            and (not envelope or envelope.overrides.flow != self.flow)
        ):
            return False
        return not self.search or any(
            self.search in text.casefold() for text in _texts(key, envelope, sighting)
        )


def _texts(key: JobKey, envelope: Envelope | None, sighting: Sighting) -> Iterable[str]:
    """Where a search looks, what is cheap to make first."""
    yield ids.to_text(key)
    for attempt in decode_past(sighting.past).attempts:
        yield AttemptInfo.of(attempt).error
    if envelope is not None:
        yield repr(arguments_of(envelope))


def states_meant(state: State | str | None, *, dead: bool) -> tuple[State, ...]:
    """The states to look through; `dead` says whether dead jobs may be asked for."""
    if state is None:
        return LIVE
    try:
        wanted = State(state)
    except ValueError:
        names = ", ".join(State)
        raise ConfigError(f"there is no state {str(state)!r}; there are {names}") from None
    if wanted in (State.DONE, State.CANCELLED):
        raise ConfigError(
            f"{wanted} jobs cannot be listed: their results are kept for a while, by id"
        )
    if wanted is State.DEAD and not dead:
        raise ConfigError("dead jobs have ended: replay() sends them again, purge() forgets them")
    return (wanted,)


async def sighted(
    store: Store, queue: str, keys: Sequence[JobKey]
) -> AsyncGenerator[tuple[JobKey, Sighting], None]:
    """What is known of these jobs, bodies included, without those that are gone."""
    for start in range(0, len(keys), LOOKED_AT_TOGETHER):
        batch = keys[start : start + LOOKED_AT_TOGETHER]
        sightings = await store.look(queue, batch, bodies=True)
        for key, sighting in zip(batch, sightings, strict=True):
            if sighting is not None:
                yield key, sighting


class Place:
    """Where a listing has come to: a state, one of the queues, and a cursor there. As a text, it is
    what callers are given and give back."""

    def __init__(self, queues: Sequence[str], states: tuple[State, ...], text: str) -> None:
        self._stops = {
            f"{state}{_NUMBER}{at}" if at else str(state): (state, queue)
            for state in states
            for at, queue in enumerate(queues)
        }
        self.cursor = ""
        if text:
            name, slash, self.cursor = text.partition("/")
            if not slash or name not in self._stops:
                raise ConfigError(f"{text!r} is not a cursor of this list of jobs")
            while next(iter(self._stops)) != name:
                self._go_on()

    @property
    def queue(self) -> str | None:
        """None after the last page."""
        return next((queue for _, queue in self._stops.values()), None)

    async def page(self, store: Store, queue: str, limit: int) -> KeyPage:
        """The keys that come here; only to be asked before the last page."""
        state, _ = next(iter(self._stops.values()))
        return await store.browse(queue, state, self.cursor, limit)

    def go_to(self, cursor: str) -> None:
        """To the next page, if there is one, else to the next queue or state."""
        self.cursor = cursor
        if not cursor:
            self._go_on()

    def _go_on(self) -> None:
        del self._stops[next(iter(self._stops))]

    def __str__(self) -> str:
        return f"{next(iter(self._stops))}/{self.cursor}" if self._stops else ""
