"""What all visits to one dashboard share."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from headrace.exposition.store_probe import StoreProbe
from headrace.web.actions.background_actions import BackgroundActions
from headrace.web.auth.csrf import Seal
from headrace.web.auth.origins import Origin
from headrace.web.auth.secret import derived
from headrace.web.auth.signing import Signed
from headrace.web.auth.users import Role, User
from headrace.web.live.shared_pages import Watches
from headrace.web.live.streams import Streams
from headrace.web.page import Visit
from headrace.web.stats_cache import Ledgers

if TYPE_CHECKING:
    from starlette.requests import Request

    from headrace.admin.redaction import Redact
    from headrace.app import Headrace
    from headrace.web.auth.access import Access

# For the login and for errors: someone of whom nothing is known.
NOBODY = User("", Role.VIEWER)


@dataclass
class Board:
    """The app that is shown, and how."""

    app: Headrace
    title: str
    access: Access
    redact: Redact | None = None
    origins: frozenset[Origin] = frozenset()
    """Addresses under which people see it, besides the one that a request goes to."""
    ticks: dict[object, list[datetime]] = field(default_factory=dict)
    """The next times of schedules, by what they follow from."""
    background_actions: BackgroundActions = field(default_factory=BackgroundActions)
    streams: Streams = field(default_factory=Streams)
    watches: Watches = field(default_factory=Watches)

    def __post_init__(self) -> None:
        self.ledgers = Ledgers(self.app.admin)
        self.probe = StoreProbe(self.app)
        self._form_key = derived(self.access.key, "form")
        self._notices = Signed(self.access.key, "notice")

    async def admitted(self, request: Request) -> Visit:
        """The visit that a request is. Raises what `Access.admit` does."""
        return self.visit(request, await self.access.admit(request))

    def visit(self, request: Request, user: User = NOBODY) -> Visit:
        """A visit by a user, or for errors and the login by nobody."""
        seal = Seal(request, user.name, self._form_key)
        request.state.seal, request.state.notices = seal, self._notices
        return Visit(
            board=self,
            user=user,
            path=path_of(request),
            query=request.query_params,
            root=request.scope.get("root_path", "").rstrip("/"),
            token=seal.token,
            address=request.client.host if request.client else "",
        )


def path_of(request: Request) -> str:
    """The path below where the dashboard is mounted."""
    root, path = request.scope.get("root_path", "").rstrip("/"), request.scope["path"]
    if root and path.startswith(f"{root}/"):
        path = path[len(root) :]
    return path or "/"
