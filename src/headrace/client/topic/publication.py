"""Events on their way to a topic, while they can still be changed, and the outcome."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar, overload

import msgspec

from headrace.client.topic.topic_definition import TopicDefinition
from headrace.core.job import ids
from headrace.core.job.ids import JobId
from headrace.core.job.parcel import Parcel
from headrace.errors import EnqueueUnknown, HeadraceError

E = TypeVar("E")


class PreparedEvent(NamedTuple):
    """An event ready to be put into a log. `custom_id` says that a caller chose its id, or
    that it may be there already."""

    log: str
    parcel: Parcel
    custom_id: bool


class Unpublished(Generic[E]):
    """An event that failed, or may have failed. Pass it to `publish_many` again: it keeps its id,
    and is published once."""

    __slots__ = ("event", "prepared")

    def __init__(self, event: E, prepared: PreparedEvent) -> None:
        self.event = event
        self.prepared = prepared

    @property
    def id(self) -> str:
        return ids.to_text(self.prepared.parcel.job_id)

    def __repr__(self) -> str:
        return f"<Unpublished {self.id} {self.event!r}>"


class PublishResult(msgspec.Struct, frozen=True):
    """The outcome of one event. `id` is None if it could not even be encoded; `unknown` says that
    the store's answer was lost, so that it may be published or not; `dropped` that the topic was
    full, and has `overflow="drop_newest"`."""

    id: str | None
    """None if the event could not even be encoded."""
    error: HeadraceError | None = None
    """Why it is not published, or may not be; None if it is."""
    dropped: bool = False
    """Whether the topic was full, and has `overflow="drop_newest"`."""

    @property
    def ok(self) -> bool:
        """Whether it is published, or dropped as the topic declares."""
        return self.error is None

    @property
    def unknown(self) -> bool:
        """Whether it may be published nevertheless."""
        return isinstance(self.error, EnqueueUnknown)


class PublishOutcome(Sequence[PublishResult], Generic[E]):
    """One result for each event, in the order in which they were given."""

    def __init__(self) -> None:
        self._keys: list[JobId | None] = []
        self._errors: dict[int, HeadraceError] = {}
        self._unpublished: dict[int, Unpublished[E]] = {}
        self._dropped: set[int] = set()

    def add(self, job_ids: Sequence[JobId | None]) -> None:
        """Some more events, published unless `fail` says otherwise."""
        self._keys += job_ids

    def fail(
        self, position: int, error: HeadraceError, unpublished: Unpublished[E] | None = None
    ) -> None:
        """The event at this position was not published; if `unpublished`, it could be again."""
        self._errors[position] = error
        if unpublished is not None:
            self._unpublished[position] = unpublished

    def drop(self, position: int) -> None:
        """The event at this position was dropped, because its topic is full."""
        self._dropped.add(position)

    def extend(self, other: PublishOutcome[E]) -> None:
        """Add the outcome of more events."""
        before = len(self._keys)
        self._keys += other._keys
        self._errors |= {before + at: error for at, error in other._errors.items()}
        self._unpublished |= {before + at: one for at, one in other._unpublished.items()}
        self._dropped |= {before + at for at in other._dropped}

    @property
    def ok(self) -> bool:
        """Whether all are published, or dropped as the topic declares."""
        return not self._errors

    @property
    def failed(self) -> list[PublishResult]:
        """The results of those that are not, or may not be."""
        return [self[position] for position in sorted(self._errors)]

    @property
    def dropped(self) -> list[PublishResult]:
        """The results of those that a full topic has dropped, with `overflow="drop_newest"`."""
        return [self[position] for position in sorted(self._dropped)]

    @property
    def to_republish(self) -> list[Unpublished[E]]:
        """Events that failed for a passing reason, in order: give them to `publish_many` again.
        They keep their ids, so that none is published twice, even if the first time succeeded.
        Events that cannot travel are not among them."""
        return [self._unpublished[position] for position in sorted(self._unpublished)]

    @property
    def ids(self) -> list[str | None]:
        """The ids of the events, in order."""
        return [None if key is None else ids.to_text(key) for key in self._keys]

    def __len__(self) -> int:
        return len(self._keys)

    @overload
    def __getitem__(self, position: int) -> PublishResult: ...
    @overload
    def __getitem__(self, position: slice) -> list[PublishResult]: ...
    def __getitem__(self, position: Any) -> Any:
        if isinstance(position, slice):
            return [self[at] for at in range(*position.indices(len(self)))]
        at = range(len(self))[position]
        key = self._keys[at]
        id = None if key is None else ids.to_text(key)
        return PublishResult(id, self._errors.get(at), at in self._dropped)

    def __repr__(self) -> str:
        return f"<PublishOutcome of {len(self)} events, {len(self._errors)} failed>"


class Publication:
    """Events that are about to be published. `options` are those of the `publish` call: `headers`,
    `key` and so on. `events` has one, or up to 500 of a `publish_many`; some may be
    `Unpublished`."""

    __slots__ = ("events", "options", "topic")

    def __init__(
        self, topic: TopicDefinition[Any], events: Sequence[Any], options: dict[str, Any]
    ) -> None:
        self.topic = topic
        self.events = events
        self.options = options


Publish = Callable[[Publication], Awaitable[PublishOutcome[Any]]]
