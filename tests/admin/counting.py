"""What questions cost: the calls to a store, counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from headrace import Headrace
from headrace.benchmark import asgi_client


@asynccontextmanager
async def counted(app: Headrace) -> AsyncGenerator[Counter[str], None]:
    """The calls that the app's admin makes meanwhile, by name."""
    session = await app.session()
    store = session.store
    try:
        yield (await asgi_client.counted(app)).calls
    finally:
        session.store = store
