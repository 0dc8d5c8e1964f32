"""What a worker is told to work on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.client.subscription import Subscription
from headrace.core import bounds
from headrace.core.queue_names import group_source, is_log
from headrace.errors import ConfigError

if TYPE_CHECKING:
    from headrace.worker.app import WorkerApp


@dataclass(frozen=True, slots=True)
class WorkerSelection:
    weights: dict[str, int]
    """Each ordinary queue with its weight, in the order given."""
    subscriptions: list[Subscription[..., Any]]


def choose(
    app: WorkerApp, queues: Sequence[str] | Mapping[str, int] | None, strict: bool
) -> WorkerSelection:
    """Ordinary queues by their names, groups of topics by those of their queues, such as
    `billing@orders`; all that the app declares if none are given."""
    if isinstance(queues, str):
        raise ConfigError(f"queues must be a list of names, not the text {queues!r}")
    if strict and isinstance(queues, Mapping):
        raise ConfigError("strict=True takes queues in their order: give a list, without weights")
    known = _subscriptions(app)
    if queues is None:
        if not app.tasks and not known and not _broadcasts(app):
            raise ConfigError("the app has no tasks, so a worker would have no queue: declare some")
        # Without tasks it could run nothing that it finds in a queue.
        read = app.queues if app.tasks else []
        return WorkerSelection(dict.fromkeys(read, 1), list(known.values()))
    if not queues:
        raise ConfigError(
            "queues is empty, so a worker would have none: name some, or leave it out"
        )
    given = queues if isinstance(queues, Mapping) else dict.fromkeys(queues, 1)
    weights = {
        bounds.check_name("queue", name): bounds.check_count(
            f"the weight of queue {name!r}", weight
        )
        for name, weight in given.items()
    }
    groups = [name for name in weights if group_source(name) or is_log(name)]
    for name in groups:
        _check_group(name, weights.pop(name), strict, known)
    return WorkerSelection(weights, [known[name] for name in groups])


def _subscriptions(app: WorkerApp) -> dict[str, Subscription[..., Any]]:
    found = [one for topic in app.topics.values() for one in topic.subscriptions.values()]
    return {one.declared.queue: one for one in found}


def _broadcasts(app: WorkerApp) -> bool:
    return any(topic.broadcasts for topic in app.topics.values())


def _check_group(
    name: str, weight: int, strict: bool, known: Mapping[str, Subscription[..., Any]]
) -> None:
    if name not in known:
        raise ConfigError(
            f"the app has no subscription for {name!r}; it has {', '.join(known) or 'none'}"
        )
    if weight != 1:
        raise ConfigError(
            f"the weight of {name!r} cannot be {weight}: a group shares no reads with queues; give "
            "its subscription max_in_flight= or consumers="
        )
    if strict:
        raise ConfigError(
            f"strict=True orders queues, and {name!r} is a group, which is read by itself: let "
            "another worker serve it"
        )
