"""Deeds that take longer than a person wants to look at a blank page."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from headrace.errors import HeadraceError
from headrace.web.notices import Notice
from headrace.web.page import Refusal

log = logging.getLogger("headrace.web")

PATIENCE = 2.0
_KEPT = 200


@dataclass
class Errand:
    """A deed that goes on by itself. `notice` is what came of it, once something has."""

    id: str
    verb: str
    label: str
    user: str
    back: str
    task: asyncio.Task[Notice]
    started: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def notice(self) -> Notice | None:
        if not self.task.done():
            return None
        if self.task.cancelled():
            return Notice("It was cut short: the dashboard was stopped.", "bad")
        return self.task.result()


class Errands:
    """Those of this process: the latest ones."""

    def __init__(self, patience: float = PATIENCE) -> None:
        self._errands: dict[str, Errand] = {}
        self.patience = patience

    async def run(
        self, verb: str, label: str, user: str, back: str, deed: Awaitable[str]
    ) -> Errand:
        """Begin a deed, and come back when it is done or has taken a while."""
        task = asyncio.create_task(_told(verb, deed), name=f"headrace-deed-{verb}")
        errand = Errand(secrets.token_urlsafe(9), verb, label, user, back, task)
        # Also while it is awaited here: nothing else holds on to it if the person leaves.
        self._keep(errand)
        await asyncio.wait({task}, timeout=self.patience)
        if task.done():
            self._errands.pop(errand.id, None)
        return errand

    async def close(self) -> None:
        """Cut short what goes on, while it can still be recorded that it was."""
        going = [errand.task for errand in self._errands.values() if not errand.task.done()]
        for task in going:
            task.cancel()
        await asyncio.gather(*going, return_exceptions=True)

    def get(self, id: str) -> Errand | None:
        return self._errands.get(id)

    def _keep(self, errand: Errand) -> None:
        self._errands[errand.id] = errand
        ended = [id for id, each in self._errands.items() if each.task.done()]
        for id in ended[: max(0, len(self._errands) - _KEPT)]:
            self._errands.pop(id)


async def _told(verb: str, deed: Awaitable[str]) -> Notice:
    """What came of it, as a sentence, whatever it was."""
    try:
        return Notice(await deed)
    except Refusal as refusal:
        return Notice(refusal.sentence, "bad", refusal.page)
    except HeadraceError as error:
        return Notice(f"Not done: {error}", "bad")
    except Exception:
        log.exception("the deed %r failed", verb)
        return Notice("Not done: an error inside the dashboard, see its log.", "bad")
