"""Actions that take longer than the request that posted them."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from headrace.errors import HeadraceError
from headrace.web.page import FlashMessage, PageError

log = logging.getLogger("headrace.web")

WAIT_SECONDS = 2.0
_KEPT = 200


@dataclass
class BackgroundAction:
    """An action that goes on after its request. `flash` says how it ended, once it has."""

    id: str
    verb: str
    label: str
    user: str
    back: str
    task: asyncio.Task[FlashMessage]
    started: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def flash(self) -> FlashMessage | None:
        if not self.task.done():
            return None
        if self.task.cancelled():
            return FlashMessage("Cancelled: the dashboard was stopped.", "bad")
        return self.task.result()


class BackgroundActions:
    """The latest background actions of this process."""

    def __init__(self, wait: float = WAIT_SECONDS) -> None:
        self._actions: dict[str, BackgroundAction] = {}
        self.wait = wait

    async def run(
        self, verb: str, label: str, user: str, back: str, work: Awaitable[str]
    ) -> BackgroundAction:
        """Start an action; returns when it has ended, or after `wait` seconds."""
        task = asyncio.create_task(_flash_of(verb, work), name=f"headrace-action-{verb}")
        action = BackgroundAction(secrets.token_urlsafe(9), verb, label, user, back, task)
        # Also while it is awaited here: nothing else keeps it if the user leaves.
        self._keep(action)
        await asyncio.wait({task}, timeout=self.wait)
        if task.done():
            self._actions.pop(action.id, None)
        return action

    async def close(self) -> None:
        """Cancel running actions, while that can still be recorded."""
        going = [action.task for action in self._actions.values() if not action.task.done()]
        for task in going:
            task.cancel()
        await asyncio.gather(*going, return_exceptions=True)

    def get(self, id: str) -> BackgroundAction | None:
        return self._actions.get(id)

    def _keep(self, action: BackgroundAction) -> None:
        self._actions[action.id] = action
        ended = [id for id, each in self._actions.items() if each.task.done()]
        for id in ended[: max(0, len(self._actions) - _KEPT)]:
            self._actions.pop(id)


async def _flash_of(verb: str, work: Awaitable[str]) -> FlashMessage:
    """How the action ended, also if it failed."""
    try:
        return FlashMessage(await work)
    except PageError as error:
        return FlashMessage(error.message, "bad", error.page)
    except HeadraceError as error:
        return FlashMessage(f"Not done: {error}", "bad")
    except Exception:
        log.exception("the action %r failed", verb, extra={"action": verb})
        return FlashMessage("Not done: an error inside the dashboard, see its log.", "bad")
