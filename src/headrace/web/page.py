"""What a view is given, and what it makes of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from starlette.datastructures import ImmutableMultiDict

from headrace.web.rendering.formatting import clip

if TYPE_CHECKING:
    from headrace.admin import Admin
    from headrace.app import Headrace
    from headrace.web.auth.users import User
    from headrace.web.state import Board

# Python reads no more than a few thousand.
_MOST_DIGITS = 18
_MOST_BACK = 4_000

Form = ImmutableMultiDict[str, str]


@dataclass(frozen=True, slots=True)
class Page:
    """What is shown: a template that extends `base.html`, and what it is filled with. While someone
    looks, its block `live` is made anew every `live` seconds; None for never."""

    template: str
    title: str
    context: Mapping[str, Any] = field(default_factory=dict)
    live: float | None = 2.0
    status: int = 200


def interval(calls: float, least: float) -> float:
    """Seconds between two looks that cost so many calls to the store each, so that no open page
    makes more than five a second."""
    return max(least, calls / 4.5)


class Refusal(Exception):
    """A view cannot show or do what was asked for: `status` and a sentence that says why; of a
    action also the page that is shown for it, such as the form with what was typed into it."""

    def __init__(
        self,
        status: int,
        sentence: str,
        page: Page | None = None,
        *,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence
        self.page = page
        self.retry_after = retry_after
        """Seconds after which it may be asked for again."""


class LoginWanted(Exception):
    """Nobody is known to be there: a person may log in, a program may send a password."""


@dataclass(frozen=True)
class Visit:
    """One request by someone who may make it."""

    board: Board
    """What all visits share."""
    user: User
    path: str
    """Below where the dashboard is mounted."""
    query: Mapping[str, str]
    root: str = ""
    """Where the dashboard is mounted, without a slash at the end."""
    token: str = ""
    """What a form must bring along to show that it is one of ours."""
    form: Form = field(default_factory=Form)
    address: str = ""
    """Where the request comes from, as far as the server knows."""

    @property
    def app(self) -> Headrace:
        return self.board.app

    @property
    def admin(self) -> Admin:
        """Whose actions are recorded as those of the user, and which tells what may be shown."""
        admin = self.board.app.admin.by(self.user.name, address=self.address)
        return admin.redacted(self.board.redact)

    @property
    def hides(self) -> bool:
        """Whether a redact hook says what may be shown."""
        return self.admin.is_redacted

    @property
    def here(self) -> str:
        """This page, as `back` takes it: path and query, below where the dashboard is mounted."""
        return _joined(self.path, self.query)

    @property
    def back(self) -> str:
        """As `here`, for each form of a page: without the query if that is too long to be repeated
        so often."""
        return here if len(here := self.here) <= _MOST_BACK else self.path

    def url(self, path: str, /, **query: object) -> str:
        """The address of one of our pages. What is None or empty is left out of the query."""
        return self.root + _joined(path, query)

    def again(self, **changes: object) -> str:
        """The address of this page with some of its query changed; None or empty leaves it out."""
        return self.root + _joined(self.path, {**self.query, **changes})

    def asked(self, name: str) -> str:
        """What the query or else the form says under a name; refused if it says nothing."""
        value = self.form.get(name) or self.query.get(name)
        if not value:
            raise Refusal(400, f"Say which {name}: the address or the form has none.")
        return value

    def number(self, name: str, default: int, most: int) -> int:
        """A number from 1 to `most` in the query."""
        text = self.query.get(name) or str(default)
        is_number = text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS
        if not is_number or not 1 <= int(text) <= most:
            raise Refusal(400, f"{name} is {clip(text)!r}: say a number from 1 to {most}.")
        return int(text)


View = Callable[[Visit], Awaitable[Page]]


def _joined(path: str, query: Mapping[str, object]) -> str:
    given = {name: str(value) for name, value in query.items() if value not in (None, "")}
    # Names may hold lone surrogates, which no address can: they are refused where they are read.
    asked = urlencode(given, quote_via=quote, errors="replace")
    return f"{path}?{asked}" if asked else path
