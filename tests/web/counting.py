"""How often the store is asked."""

from __future__ import annotations

from collections import Counter
from typing import Any

from headrace import Headrace


class Counting:
    """A store that counts what is called."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if not callable(found):
            return found

        def called(*args: Any, **kwargs: Any) -> Any:
            self.calls[name] += 1
            return found(*args, **kwargs)

        return called


async def counted(app: Headrace) -> Counting:
    """The app's store, of which calls are counted from now on."""
    session = await app.session()
    counting = Counting(session.store)
    session.store = counting
    return counting
