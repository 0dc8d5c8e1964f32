"""Pages, errors that become pages, and flash messages, which the next page shows once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from headrace.errors import (
    ConfigError,
    EventNotFound,
    GroupNotFound,
    HeadraceError,
    JobNotFound,
    QueueNotFound,
    ScheduleNotFound,
    SendError,
    StoreError,
    TopicNotFound,
    WorkerNotFound,
)
from headrace.web.auth.cookies import Signed, cookie, forget_cookie, set_cookie

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

_NOT_THERE: tuple[type[HeadraceError], ...] = (
    JobNotFound,
    EventNotFound,
    GroupNotFound,
    TopicNotFound,
    ScheduleNotFound,
    QueueNotFound,
    WorkerNotFound,
)
_STATUS: tuple[tuple[tuple[type[HeadraceError], ...], int], ...] = (
    (_NOT_THERE, 404),
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
_FLASH = "flash"
# Browsers drop cookies above 4 KB.
_MOST_FLASH = 700
_FLASH_SECONDS = 60


Rows: TypeAlias = Sequence[Any] | Callable[[], Sequence[Any]]


@dataclass(frozen=True, slots=True)
class HtmlPage:
    """A template that extends `base.html`, and its context. While the page is open, its block
    `live` is rendered again every `live` seconds; None for never."""

    template: str
    title: str
    context: Mapping[str, Any] = field(default_factory=dict)
    live: float | None = 2.0
    status: int = 200
    rows: Sequence[Any] | None = None
    """What the page lists, for `?format=json`; None if it has no list of its own."""
    lists: Mapping[str, Rows] = field(default_factory=dict)
    """Its further lists, for `?format=json&list=` and their name."""

    def listed(self, name: str | None) -> Sequence[Any] | None:
        """The rows of the list of this name, or of its own; None if there is none."""
        if name is None:
            return self.rows
        rows = self.lists.get(name)
        return rows() if callable(rows) else rows


def interval(calls: float, least: float) -> float:
    """Seconds between two updates that make `calls` calls to the store each, so that no open page
    makes more than five a second."""
    return max(least, calls / 4.5)


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


@dataclass(frozen=True, slots=True)
class FlashMessage:
    text: str
    tone: str = "good"
    page: HtmlPage | None = None
    """Shown at once, if it says more than the message."""


def set_flash(request: Request, response: Response, flash: FlashMessage) -> None:
    """Have the next page show a message.

    It is in a cookie, so that a link from elsewhere cannot show a message of its own. The cookie is
    signed, since other hosts of our domain can plant cookies.
    """
    text = flash.text if len(flash.text) <= _MOST_FLASH else f"{flash.text[:_MOST_FLASH]}…"
    set_cookie(request, response, _FLASH, _signed(request).write(text, flash.tone), _FLASH_SECONDS)


def get_flash(request: Request) -> FlashMessage | None:
    found = _signed(request).read(cookie(request, _FLASH), _FLASH_SECONDS)
    return None if found is None else FlashMessage(found[0], found[1])


def clear_flash(request: Request, response: Response) -> None:
    forget_cookie(request, response, _FLASH)


def _signed(request: Request) -> Signed:
    signed: Signed = request.state.flash
    return signed
