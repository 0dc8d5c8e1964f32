"""What a worker works on, and with how much: its arguments, checked."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from headrace.client.topic.pattern_subscription import PatternSubscription, TopicSubscription
from headrace.client.topic.subscription import Subscription
from headrace.core import bounds
from headrace.core.clock import Duration
from headrace.core.job import ids
from headrace.core.queue_names import group_source, is_log
from headrace.core.topic.pattern import matches
from headrace.core.workers import KnownTasks
from headrace.errors import ConfigError
from headrace.worker.app import WorkerApp
from headrace.worker.group_variables import GroupCapacity, capacity_by_variable

# Consumers of groups add to it, and stores have a limit for what they get.
_LONGEST_NAME = 64

Subscriptions = tuple[Subscription[..., Any], ...]


class PatternChoice(NamedTuple):
    """A subscription to several topics, and those of its topics that are meant: a pattern or a
    name."""

    subscription: PatternSubscription[..., Any]
    topics: str

    def meets(self, topic: str) -> bool:
        return matches(self.topics, topic)

    def has(self, one: Subscription[..., Any]) -> bool:
        """Whether it is the subscription to one of the topics."""
        return (
            isinstance(one, TopicSubscription)
            and one.pattern is self.subscription
            and self.meets(one.topic.name)
        )


class WorkerSettings(msgspec.Struct, frozen=True):
    """One value for all parts of a worker."""

    name: str
    weights: Mapping[str, int]
    """Each ordinary queue with its weight, in the order given."""
    subscriptions: Subscriptions
    broadcasts: Subscriptions
    patterns: tuple[PatternChoice, ...]
    """What it was given of subscriptions to several topics, if it does not serve all."""
    serves_all: bool
    """Whether it serves whatever its app declares, also later; else only what was named."""
    strict: bool
    concurrency: int
    threads: int
    processes: int
    max_jobs_per_process: int | None
    drain: float
    wait_for_store: float | None
    schedules: bool
    """Whether it fires the ticks of schedules."""
    upkeep: bool
    """Whether it looks after its queues too, or only runs jobs."""
    burst: bool
    """Whether it ends when nothing waits or runs in its queues."""
    groups: Mapping[str, GroupCapacity]
    """What the environment says of groups, by name."""
    queue_concurrency: Mapping[str, int]
    """How many jobs of a queue run at a time, on all workers together; of those that limit it."""

    def scale_of(self, subscription: Subscription[..., Any]) -> tuple[int, int]:
        """The least and the largest number of consumers of a subscription."""
        said = self.groups.get(subscription.wants.group)
        return (said and said.consumers) or subscription.wants.scale or (1, 1)

    def slots_of(self, subscription: Subscription[..., Any]) -> int:
        """How many events one consumer of a subscription may hold at once. By default two batches
        fit: one is read while the other runs."""
        said = self.groups.get(subscription.wants.group)
        most = (said and said.max_in_flight) or subscription.wants.max_in_flight
        if most is not None:
            return most
        return max(self.concurrency, 2 * (subscription.declared.batch or 0))

    @property
    def queues(self) -> list[str]:
        """The ordinary queues, without those of groups."""
        return list(self.weights)

    @property
    def group_queues(self) -> list[str]:
        """The queues of all groups that the worker serves, shard by shard."""
        return [queue for one in self.subscriptions for queue in one.queues]

    def __str__(self) -> str:
        names = [*self.weights, *(one.declared.queue for one in self.subscriptions)]
        if set(self.weights.values()) <= {1}:
            return ", ".join(names) + (", in this order" if self.strict else "")
        return ", ".join(f"{name}={self.weights.get(name, 1)}" for name in names)


def worker_settings(
    app: WorkerApp,
    *,
    queues: Sequence[str] | Mapping[str, int] | None,
    strict: bool,
    concurrency: int,
    threads: int | None,
    processes: int | None,
    max_jobs_per_process: int | None,
    drain: Duration,
    wait_for_store: Duration | None,
    name: str | None,
    schedules: bool | None,
    upkeep: bool,
    burst: bool = False,
) -> WorkerSettings:
    """The checked settings of a new worker, with a name of its own."""
    known = _subscriptions(app)
    choices = _pattern_choices(app, known, queues or ())
    weights, subscriptions = _chosen(app, known, choices, queues, strict)
    cpus = os.cpu_count() or 1
    if max_jobs_per_process is not None:
        bounds.check_count("max_jobs_per_process", max_jobs_per_process)
    if wait_for_store is not None:
        wait_for_store = bounds.check_seconds("wait_for_store", wait_for_store)
    return WorkerSettings(
        name=_unique_name(name),
        weights=weights,
        subscriptions=subscriptions,
        broadcasts=tuple(one for topic in app.topics.values() for one in topic.broadcasts.values()),
        patterns=tuple(choices.values()),
        serves_all=queues is None,
        strict=strict,
        concurrency=bounds.check_count("concurrency", concurrency),
        threads=bounds.check_count("threads", cpus * 4 if threads is None else threads),
        processes=bounds.check_count("processes", cpus if processes is None else processes),
        max_jobs_per_process=max_jobs_per_process,
        drain=bounds.check_seconds("drain", drain),
        wait_for_store=wait_for_store,
        schedules=_fires(schedules, upkeep),
        upkeep=upkeep,
        burst=bounds.check_flag("burst", burst),
        groups=capacity_by_variable(_groups(app, known), os.environ),
        queue_concurrency={
            queue: declared.concurrency
            for queue, declared in app.queue_settings.items()
            if queue in weights and declared.concurrency is not None
        },
    )


def _fires(schedules: bool | None, upkeep: bool) -> bool:
    if schedules and not upkeep:
        raise ConfigError(
            "a worker without upkeep fires no schedules: leave upkeep=False (--no-upkeep) or "
            "schedules=True (--schedules) out"
        )
    return upkeep if schedules is None else schedules


def _groups(app: WorkerApp, known: Mapping[str, Subscription[..., Any]]) -> set[str]:
    return {one.wants.group for one in (*known.values(), *app.patterns)}


def _pattern_choices(
    app: WorkerApp, known: Mapping[str, object], queues: Iterable[object]
) -> dict[str, PatternChoice]:
    """What names choose of subscriptions to several topics: `billing@orders.*`, or one of the
    topics that it matches."""
    found: dict[str, PatternChoice] = {}
    for name in queues:
        if not isinstance(name, str) or name in known:
            continue
        source = group_source(name)
        for one in app.patterns if source else ():
            if source and source.group == one.wants.group and one.covers(source.topic):
                found[name] = PatternChoice(one, source.topic)
    return found


def _unique_name(given: str | None) -> str:
    """The given name, or that of the machine and the process, with a part that no other has."""
    if given is None:
        given = f"{socket.gethostname()}-{os.getpid()}"
    elif len(bounds.check_name("the name of a worker", given)) > _LONGEST_NAME:
        raise ConfigError(
            f"the name of a worker has {len(given)} characters, at most {_LONGEST_NAME} are allowed"
        )
    return f"{given}-{ids.new_id()[-4:].hex()}"


def _chosen(
    app: WorkerApp,
    known: Mapping[str, Subscription[..., Any]],
    choices: Mapping[str, PatternChoice],
    queues: Sequence[str] | Mapping[str, int] | None,
    strict: bool,
) -> tuple[dict[str, int], Subscriptions]:
    """Queues with their weights, and subscriptions. A group is named by its queue, such as
    `billing@orders`. Without names, all that the app declares."""
    if isinstance(queues, str):
        raise ConfigError(f"queues must be a list of names, not the text {queues!r}")
    if strict and isinstance(queues, Mapping):
        raise ConfigError("strict=True takes queues in their order: give a list, without weights")
    if queues is None:
        if not app.tasks and not known and not app.patterns and not _has_broadcasts(app):
            raise ConfigError(_no_tasks(app))
        # Without tasks it could run nothing that it finds in a queue.
        return dict.fromkeys(app.queues if app.tasks else [], 1), tuple(known.values())
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
        _check_group(name, weights.pop(name), strict, {**known, **choices})
    named = [known[name] for name in groups if name in known]
    matched = [one for one in known.values() if any(choice.has(one) for choice in choices.values())]
    return weights, tuple(dict.fromkeys([*named, *matched]))


def known_tasks(app: WorkerApp) -> KnownTasks:
    """The names under which this app runs jobs, those from before a task was renamed too, and how
    it declares them."""
    tasks = app.tasks.values()
    return KnownTasks.of(
        {name: task.signature.mark for task in tasks for name in task.declared.names}
    )


def _no_tasks(app: WorkerApp) -> str:
    if not app.modules:
        return (
            "the app has no tasks, so a worker would have no queue: name the modules that declare "
            "them, Headrace(include=['shop.mail']), or give it their Tasks(), app.include(tasks)"
        )
    return (
        f"the app has no tasks, so a worker would have no queue: {', '.join(app.modules)} of "
        "include= declare none on this app; a Tasks() there needs app.include(tasks)"
    )


def _subscriptions(app: WorkerApp) -> dict[str, Subscription[..., Any]]:
    found = [one for topic in app.topics.values() for one in topic.subscriptions.values()]
    return {one.declared.queue: one for one in found}


def _has_broadcasts(app: WorkerApp) -> bool:
    return any(topic.broadcasts for topic in app.topics.values())


def _check_group(name: str, weight: int, strict: bool, known: Mapping[str, object]) -> None:
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
