"""`headrace topics`: show topics, read and publish events, move and remove groups."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from headrace.cli.app_command import (
    Noun,
    acted,
    admin_of,
    asked,
    confirm,
    json_option,
    of_app,
    of_words,
    secrets_option,
    yes_option,
)
from headrace.cli.app_loader import command
from headrace.cli.filters import parse_since
from headrace.cli.output import (
    Shown,
    complain,
    json_document,
    show_result,
    show_table,
)
from headrace.cli.program import FAILED
from headrace.cli.topics.views import (
    KEY_HEADINGS,
    as_json_value,
    event_row,
    key_row,
    show_events,
    show_topic,
    show_topics,
)
from headrace.core.codec import json_decoder
from headrace.core.misfit import field_problem
from headrace.core.payload.kinds import named
from headrace.errors import ConfigError

if TYPE_CHECKING:
    from headrace import Headrace, Topic


@click.group(cls=Noun)
def topics() -> None:
    """Show the topics and their groups, read and publish events, move groups, free keys. Without a
    command: list.

    A group is also shown and changed like a queue: jobs list -Q billing@orders,
    dead replay -Q billing@orders, queues pause billing@orders.
    """


@topics.command("list")
@of_app
@json_option
def list_(app: Headrace, as_json: bool) -> None:
    """Show the topics, how many events each holds, and how far each of its groups is."""
    found = asked(app, lambda app: app.admin.topics())
    if as_json:
        json_document(found)
    else:
        show_topics(found)


@topics.command()
@of_words("topic")
@json_option
def show(app: Headrace, topic: str, as_json: bool) -> None:
    """Show one topic: its shards and its groups."""
    found = asked(app, lambda app: app.admin.topic(topic))
    if as_json:
        json_document(found)
    else:
        show_topic(found)


def _place(
    context: click.Context, parameter: click.Parameter, text: str | None
) -> str | datetime | None:
    """A time, if the text can be read as one; otherwise a word, or the id of an event."""
    if text is None:
        return None
    try:
        moment = parse_since(text)
    except (ValueError, OverflowError):
        return text
    return datetime.now(UTC) - moment if isinstance(moment, timedelta) else moment


@topics.command()
@of_words("topic")
@click.option(
    "--after", metavar="WHERE", callback=_place, help="After this event's id, or since 1h, 2d, …"
)
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, metavar="N")
@secrets_option
@json_option
def read(
    app: Headrace, topic: str, after: str | datetime | None, limit: int, as_json: bool
) -> None:
    """Print events of a topic, the oldest first. Changes nothing for any group."""
    shown = Shown(event_row, as_json_value, limit, as_json=as_json)
    asked(app, lambda app: shown.of(admin_of(app).read_each(topic, after, limit + 1)))
    shown.end(show_events)


@topics.command()
@of_words("topic", "event")
@click.option("--key", metavar="KEY", help="Its key, instead of the one that the topic makes.")
@click.option("--id", metavar="ID", help="Its id: an event with the same id is added only once.")
@json_option
def publish(
    app: Headrace, topic: str, event: str, key: str | None, id: str | None, as_json: bool
) -> None:
    """Publish an event, written as JSON, to a topic that APP declares; prints its id."""
    declared = _declared(app, topic)
    made = _event_of(declared, event)
    options: Any = {n: v for n, v in (("key", key), ("id", id)) if v is not None}
    published = asked(app, lambda _: declared.publish(made, **options))
    show_result(published, {"id": published}, as_json=as_json)


def _declared(app: Headrace, name: str) -> Topic[Any]:
    topic = app.topics.get(name)
    if topic is None:
        known = ", ".join(app.topics)
        raise ConfigError(
            f"the app declares no topic {name!r}{f', but {known}' if known else ''}: name an APP "
            f"that does, as in headrace topics publish shop:app {shlex.quote(name)} …"
        )
    return topic


def _event_of(topic: Topic[Any], text: str) -> Any:
    """The event in a JSON text."""
    kind = topic.event_type
    try:
        decode = json_decoder(kind)
    except (TypeError, NameError):
        raise ConfigError(
            f"topic {topic.name!r} carries {named(kind)}, which cannot be read from JSON"
        ) from None
    try:
        return decode(text.encode())
    except Exception as error:
        raise ConfigError(
            f"{text[:80]!r} is not {named(kind)} in JSON: {field_problem(error)}"
        ) from None


@topics.command()
@of_words("topic", "group")
@click.option(
    "--to",
    metavar="WHERE",
    required=True,
    callback=_place,
    help="start, new, an event's id, or a time: 30m, 2d, or ISO.",
)
@yes_option
@json_option
def rewind(
    app: Headrace, topic: str, group: str, to: str | datetime, yes: bool, as_json: bool
) -> None:
    """Move a group to another position in its topic, back or forward.

    Moved back, it handles events again; moved forward, it skips those in between. Asks first;
    without a terminal, it needs --yes.
    """
    if not yes:
        confirm("rewind", f"group {group!r} of topic {topic!r} to {to}")
    acted(app, lambda admin: admin.rewind(topic, group, to))
    show_result(
        f"rewound {group} of {topic} to {to}",
        {"rewound": {**_names(topic, group), "to": to}},
        as_json=as_json,
    )


@topics.command()
@of_words("topic", "group")
@secrets_option
@json_option
def keys(app: Headrace, topic: str, group: str, as_json: bool) -> None:
    """Show the keys of an ordered group that a dead event has stopped."""
    found = asked(app, lambda app: admin_of(app).stopped_keys(topic, group))
    show_table(found, KEY_HEADINGS, key_row, nothing="no stopped keys", as_json=as_json)


@topics.command()
@of_words("topic", "group", "key")
@json_option
def free(app: Headrace, topic: str, group: str, key: str, as_json: bool) -> None:
    """Handle the events of a stopped key again. Dead ones stay dead until they are replayed."""
    freed = acted(app, lambda admin: admin.free_key(topic, group, key))
    if not freed:
        keys = command("topics", "keys", words=(topic, group))
        complain(f"key {key!r} is not stopped: see {keys}")
        click.get_current_context().exit(FAILED)
    show_result(
        f"freed key {key}", {"freed": {**_names(topic, group), "key": key}}, as_json=as_json
    )


@topics.command()
@of_words("topic", "group")
@click.option("--force", is_flag=True, help="Remove it even while workers serve it.")
@yes_option
@json_option
def remove(app: Headrace, topic: str, group: str, force: bool, yes: bool, as_json: bool) -> None:
    """Remove a group with all its events, dead ones included.

    Workers and publishers whose app declares the group create it again: remove the subscription
    from the code first. Asks first; without a terminal, it needs --yes.
    """
    if not yes:
        confirm("remove", f"group {group!r} of topic {topic!r}, and its dead events")
    acted(app, lambda admin: admin.remove_group(topic, group, force=force))
    show_result(
        f"removed group {group} of {topic}", {"removed": _names(topic, group)}, as_json=as_json
    )


def _names(topic: str, group: str) -> dict[str, str]:
    return {"topic": topic, "group": group}
