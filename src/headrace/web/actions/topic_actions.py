"""Actions on groups of topics; pausing and resuming are the actions of queues."""

from __future__ import annotations

from datetime import UTC, datetime

from headrace.web.actions.form_actions import form_action
from headrace.web.errors import PageError
from headrace.web.visit import Visit


def _group(visit: Visit) -> tuple[str, str]:
    return visit.asked("topic"), visit.asked("group")


def _place(visit: Visit) -> tuple[str | datetime, str]:
    """The place to move to, and its description."""
    to = visit.asked("to")
    if to == "start":
        return "start", "the oldest event that is kept, so that all of them are handled again"
    if to == "new":
        return "new", "what is published from now on, so that what waits in the log is passed over"
    if to != "time":
        raise PageError(400, "Say where to: the start, what is new, or a time.")
    text = visit.form.get("time", "").strip()
    try:
        moment = datetime.fromisoformat(text)
        moment = moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise PageError(400, "Say a time to go to, such as 2026-01-31T12:00.") from None
    return moment, f"events from {moment:%Y-%m-%d %H:%M:%S} UTC on"


def _move(visit: Visit) -> str:
    (topic, group), (_, words) = _group(visit), _place(visit)
    return f"Have group {group} of topic {topic} go to {words}?"


@form_action("rewind", "Move the group", confirm=_move)
async def rewind(visit: Visit) -> str:
    (topic, group), (place, words) = _group(visit), _place(visit)
    await visit.admin.rewind(topic, group, place)
    return f"Group {group} of topic {topic} goes to {words}."


def _forget(visit: Visit) -> str:
    topic, group = _group(visit)
    return (
        f"Forget group {group} of topic {topic}, with all events that it has still to handle and "
        "its dead ones? If code still declares it, it comes back, at its beginning."
    )


@form_action("remove_group", "Remove the group", confirm=_forget)
async def remove_group(visit: Visit) -> str:
    topic, group = _group(visit)
    await visit.admin.remove_group(topic, group)
    return f"Group {group} of topic {topic} is forgotten."


@form_action("free_key", "Free the key")
async def free_key(visit: Visit) -> str:
    topic, group = _group(visit)
    key = visit.form.get("key", "")
    if not await visit.admin.free_key(topic, group, key):
        return f"Key {key} was not stopped any more."
    return f"Key {key} goes on."
