"""Errors that become pages: a status, and a message for the user."""

from __future__ import annotations

from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from headrace.web.page import HtmlPage

_STATUS: tuple[tuple[tuple[type[HeadraceError], ...], int], ...] = (
    ((JobNotFound, EventNotFound, GroupNotFound, TopicNotFound, ScheduleNotFound), 404),
    ((StoreError,), 503),
    ((ConfigError, SendError), 400),
)

ERROR_TITLES = {
    400: "That cannot be shown",
    403: "Not allowed",
    404: "Not found",
    405: "Not possible here",
    408: "Too slow",
    413: "Too large",
    429: "Too many at once",
    500: "Error in the dashboard",
    503: "The store does not answer",
}


class PageError(Exception):
    """A view cannot show, or an action cannot do, what was asked for. `page` is shown instead of
    the error page, such as the form with what was typed into it."""

    def __init__(
        self,
        status: int,
        message: str,
        page: HtmlPage | None = None,
        *,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.page = page
        self.retry_after = retry_after
        """Seconds after which the client may ask again."""


class LoginRequired(Exception):
    """The user is not known: a person may log in, a program may send a password."""


def page_error_of(error: HeadraceError) -> PageError:
    """The status and the message for an error of the admin."""
    status = next((status for kinds, status in _STATUS if isinstance(error, kinds)), 500)
    text = str(error)
    return PageError(status, f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}")
