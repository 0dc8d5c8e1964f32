"""Where all questions begin: the app, its store, its queues."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core import limits

if TYPE_CHECKING:
    from headrace.app import Headrace
    from headrace.store.contract import Store


class Desk:
    """What the parts of the admin share. Holds nothing: each call asks the store."""

    def __init__(self, app: Headrace) -> None:
        self._app = app

    async def _queue_names(self, only: str | None = None) -> list[str]:
        if only is not None:
            return [limits.check_name("queue", only)]
        known = await (await self._store()).queues()
        return sorted({*known, *self._app.queues})

    async def _store(self) -> Store:
        return (await self._app.session()).store
