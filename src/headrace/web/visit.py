"""What a view is given: a request and its user, and what all requests to one dashboard share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from starlette.datastructures import ImmutableMultiDict

from headrace.exposition.health import StoreProbe
from headrace.web.actions.background_actions import BackgroundActions
from headrace.web.auth.cookies import Signed
from headrace.web.auth.csrf import CsrfToken, Origin
from headrace.web.auth.secret import derived
from headrace.web.auth.users import Role, User
from headrace.web.page import HtmlPage, PageError
from headrace.web.rendering.formatting import clip
from headrace.web.stats_cache import StatsCaches
from headrace.web.streams import EventStreams, SharedPages

if TYPE_CHECKING:
    from starlette.requests import Request

    from headrace.admin import Admin
    from headrace.admin.redaction import Redact
    from headrace.app import Headrace
    from headrace.web.auth.access import Access


@dataclass
class DashboardState:
    """The app that is shown, the access policy, and what is cached or running."""

    app: Headrace
    title: str
    access: Access
    redact: Redact | None = None
    origins: frozenset[Origin] = frozenset()
    """Accepted origins of forms, besides the address that a request goes to."""
    ticks: dict[object, list[datetime]] = field(default_factory=dict)
    """The next ticks of schedules, by all that they depend on."""
    background_actions: BackgroundActions = field(default_factory=BackgroundActions)
    streams: EventStreams = field(default_factory=EventStreams)
    shared_pages: SharedPages = field(default_factory=SharedPages)

    def __post_init__(self) -> None:
        self.stats = StatsCaches(self.app.admin)
        self.probe = StoreProbe(self.app)
        self._form_key = derived(self.access.key, "form")
        self.flash = Signed(self.access.key, "flash")

    def csrf_token(self, request: Request, user: User) -> CsrfToken:
        return CsrfToken(request, user.name, self._form_key)


# Python parses no more than a few thousand digits.
_MOST_DIGITS = 18
_MOST_BACK = 4_000
ANONYMOUS = User("", Role.VIEWER)
"""The user of the login page and of error pages."""

Form = ImmutableMultiDict[str, str]


@dataclass(frozen=True)
class Visit:
    """One request, and its user."""

    dashboard: DashboardState
    user: User
    path: str
    """Below the dashboard's mount point."""
    query: Mapping[str, str]
    root: str = ""
    """The dashboard's mount point, without a slash at the end."""
    csrf_token: str = ""
    """Each form sends it back, to prove that it is one of ours."""
    form: Form = field(default_factory=Form)
    address: str = ""
    """The client's address, as far as the server knows it."""

    @property
    def app(self) -> Headrace:
        return self.dashboard.app

    @property
    def admin(self) -> Admin:
        """Records actions under the user's name, and returns only what may be shown."""
        admin = self.dashboard.app.admin.by(self.user.name, address=self.address)
        return admin.redacted(self.dashboard.redact)

    @property
    def hides(self) -> bool:
        """Whether a redact hook decides what may be shown."""
        return self.admin.is_redacted

    @property
    def here(self) -> str:
        """Path and query of this page, below the mount point, as `back` takes them."""
        return _joined(self.path, self.query)

    @property
    def back(self) -> str:
        """As `here`, without the query if that is too long to repeat in each form."""
        return here if len(here := self.here) <= _MOST_BACK else self.path

    def url(self, path: str, /, **query: object) -> str:
        """The URL of one of our pages; None and empty values are left out of the query."""
        return self.root + _joined(path, query)

    def again(self, **changes: object) -> str:
        """The URL of this page with a changed query; None and empty values are left out."""
        return self.root + _joined(self.path, {**self.query, **changes})

    def asked(self, name: str) -> str:
        """The value in the form, or else in the query; `PageError` if there is none."""
        value = self.form.get(name) or self.query.get(name)
        if not value:
            raise PageError(400, f"Say which {name}: the address or the form has none.")
        return value

    def number(self, name: str, default: int, most: int) -> int:
        """A number from 1 to `most` in the query."""
        text = self.query.get(name) or str(default)
        is_number = text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS
        if not is_number or not 1 <= int(text) <= most:
            raise PageError(400, f"{name} is {clip(text)!r}: say a number from 1 to {most}.")
        return int(text)


View = Callable[[Visit], Awaitable[HtmlPage]]


def visit_of(dashboard: DashboardState, request: Request, user: User = ANONYMOUS) -> Visit:
    """The visit of a user. Puts the CSRF token and the flash signer into `request.state`."""
    csrf = dashboard.csrf_token(request, user)
    request.state.csrf, request.state.flash = csrf, dashboard.flash
    return Visit(
        dashboard=dashboard,
        user=user,
        path=path_of(request),
        query=request.query_params,
        root=request.scope.get("root_path", "").rstrip("/"),
        csrf_token=csrf.value,
        address=request.client.host if request.client else "",
    )


def path_of(request: Request) -> str:
    """The path below the dashboard's mount point."""
    root, path = request.scope.get("root_path", "").rstrip("/"), request.scope["path"]
    if root and path.startswith(f"{root}/"):
        path = path[len(root) :]
    return path or "/"


def _joined(path: str, query: Mapping[str, object]) -> str:
    given = {name: str(value) for name, value in query.items() if value not in (None, "")}
    # Names may hold lone surrogates, which no URL can: they are refused where they are read.
    asked = urlencode(given, quote_via=quote, errors="replace")
    return f"{path}?{asked}" if asked else path
