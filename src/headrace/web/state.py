"""What all requests to one dashboard share."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from headrace.exposition.store_probe import StoreProbe
from headrace.web.actions.background_actions import BackgroundActions
from headrace.web.auth.csrf import CsrfToken
from headrace.web.auth.secret import derived
from headrace.web.auth.signing import Signed
from headrace.web.live.shared_pages import SharedPages
from headrace.web.live.streams import EventStreams
from headrace.web.stats_cache import StatsCaches

if TYPE_CHECKING:
    from starlette.requests import Request

    from headrace.admin.redaction import Redact
    from headrace.app import Headrace
    from headrace.web.auth.access import Access
    from headrace.web.auth.origins import Origin
    from headrace.web.auth.users import User


@dataclass
class DashboardState:
    """The app that is shown, who may see it, and what is cached or under way."""

    app: Headrace
    title: str
    access: Access
    redact: Redact | None = None
    origins: frozenset[Origin] = frozenset()
    """Further origins of forms that are accepted, besides the one that a request goes to."""
    ticks: dict[object, list[datetime]] = field(default_factory=dict)
    """The next times of schedules, by what they follow from."""
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
