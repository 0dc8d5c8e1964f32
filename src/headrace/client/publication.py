"""Events on their way to a topic, while they can still be changed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from headrace.client.publishing import PublishOutcome

if TYPE_CHECKING:
    from headrace.client.topic import Topic


class Publication:
    """What is about to be published. `options` are those that `publish` was given: `headers`, `key`
    and so on; `events` are one, or up to 500 of a `publish_many`, some of which may be
    `Unpublished`."""

    __slots__ = ("events", "options", "topic")

    def __init__(self, topic: Topic[Any], events: Sequence[Any], options: dict[str, Any]) -> None:
        self.topic = topic
        self.events = events
        self.options = options


Publish = Callable[[Publication], Awaitable[PublishOutcome[Any]]]
