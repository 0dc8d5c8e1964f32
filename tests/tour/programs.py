"""Two versions of a program, on one store."""

from __future__ import annotations

from typing import Any

from headrace import Headrace


async def other_program(app: Headrace, **settings: Any) -> Headrace:
    """Another app on the store of this one, for as long as that is open."""
    other = Headrace(app.url, namespace=app.namespace, lease=app.lease, **settings)
    if app.url.startswith("memory:"):
        other._store = app.store
        # Not left again: the store is closed by the app that it belongs to.
        await other.__aenter__()
    return other
