"""How topics, groups and events are printed: for people, and as JSON."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import click

from headrace.cli.output import Cells, harmless, moment, shortened, table
from headrace.core.display import length_text, plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.admin import EventInfo, GroupInfo, StoppedKeyInfo, TopicInfo

_TOPIC_HEADINGS = (
    "topic", "length", "group", "lag", "behind", "running", "blocked", "dead", "oldest", "state",
)  # fmt: skip
_GROUP_HEADINGS = (
    "group", "order", "lag", "behind", "waiting", "running", "scheduled", "blocked", "dead",
    "oldest", "last seen", "state",
)  # fmt: skip
_EVENT_HEADINGS = ("time", "id", "key", "type", "event")
KEY_HEADINGS = ("key", "state", "since", "waiting", "event")


def show_topics(found: Sequence[TopicInfo]) -> None:
    """A row for each group."""
    if not found:
        click.echo("no topics yet: nothing has been published")
        return
    table(_TOPIC_HEADINGS, [row for topic in found for row in _topic_rows(topic)])


def _topic_rows(topic: TopicInfo) -> list[Sequence[str | int]]:
    if not topic.groups:
        return [(topic.name, topic.length, "(none)", 0, 0, 0, 0, 0, "", "")]
    return [
        (
            topic.name,
            topic.length,
            group.name,
            group.lag,
            group.behind,
            group.running,
            group.blocked,
            group.dead,
            _age(group),
            _state(group),
        )
        for group in topic.groups
    ]


def show_topic(topic: TopicInfo) -> None:
    lengths = ", ".join(f"{shard.log} {shard.length}" for shard in topic.shards)
    click.echo(f"{'topic':<11}{harmless(topic.name)}")
    click.echo(f"{'length':<11}{topic.length}")
    dropped = f", {topic.dropped} dropped" if topic.dropped else ""
    click.echo(f"{'last hour':<11}{topic.published} published{dropped}")
    if len(topic.shards) > 1:
        click.echo(f"{'shards':<11}{harmless(lengths)}")
    if not topic.groups:
        click.echo(f"{'groups':<11}none (yet)")
        return
    click.echo()
    table(_GROUP_HEADINGS, [_group_row(group) for group in topic.groups])


def _group_row(group: GroupInfo) -> Sequence[str | int]:
    return (
        group.name,
        f"by key, {group.on_failure}" if group.ordered else "none",
        group.lag,
        group.behind,
        group.waiting,
        group.running,
        group.scheduled,
        group.blocked,
        group.dead,
        _age(group),
        moment(group.last_seen),
        _state(group),
    )


def _age(group: GroupInfo) -> str:
    return "" if group.age is None else length_text(group.age)


def _state(group: GroupInfo) -> str:
    """What keeps it from handling events."""
    words = [word for word in ("paused", "gone") if getattr(group, word)]
    return ", ".join([*words, stopped_text(group)] if group.stopped_keys else words)


def stopped_text(group: GroupInfo) -> str:
    """Such as "52 keys stopped for 15 min, 834 events blocked"."""
    since = "" if group.stopped_age is None else f" for {length_text(group.stopped_age)}"
    behind = f", {plural(group.stopped_events, 'event')} blocked" if group.stopped_events else ""
    return f"{plural(group.stopped_keys, 'key')} stopped{since}{behind}"


def show_events(rows: Sequence[Cells]) -> None:
    if not rows:
        click.echo("no such events")
        return
    table(_EVENT_HEADINGS, rows)


def event_row(event: EventInfo) -> Cells:
    return (
        "" if event.time is None else moment(event.time),
        event.id,
        event.key or "",
        event.type or "",
        "(damaged)" if event.data is None and event.size > 1 else shortened(repr(event.data)),
    )


def as_json_value(event: EventInfo) -> dict[str, Any]:
    """All that is known, under stable keys."""
    # Not `asdict`, which copies the data.
    return {each.name: getattr(event, each.name) for each in fields(event)}


def key_row(stopped: StoppedKeyInfo) -> Sequence[str | int]:
    return stopped.key, stopped.state, moment(stopped.since), stopped.waiting, stopped.event
