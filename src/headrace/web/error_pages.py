"""What errors come to in a browser."""

from __future__ import annotations

from headrace.errors import (
    ConfigError,
    EventNotFound,
    GroupNotFound,
    HeadraceError,
    JobNotFound,
    ScheduleNotFound,
    SendError,
    StoreError,
    TopicNotFound,
)
from headrace.web.page import Refusal

_STATUS: tuple[tuple[tuple[type[HeadraceError], ...], int], ...] = (
    ((JobNotFound, EventNotFound, GroupNotFound, TopicNotFound, ScheduleNotFound), 404),
    ((StoreError,), 503),
    ((ConfigError, SendError), 400),
)

TITLES = {
    400: "That cannot be shown",
    403: "Not for you",
    404: "Not found",
    405: "Not like that",
    408: "Too slow",
    413: "Too large",
    429: "Too many at once",
    500: "An error of ours",
    503: "The store does not answer",
}


def refusal_of(error: HeadraceError) -> Refusal:
    """The status and the sentence for an error of the admin."""
    status = next((status for kinds, status in _STATUS if isinstance(error, kinds)), 500)
    text = str(error)
    return Refusal(status, f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}")
