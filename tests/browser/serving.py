"""ASGI apps on a port of this machine, beside the tests on their event loop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount

from headrace import Headrace, dashboard
from headrace.web.auth.local_access import LocalAccess

tokens: dict[str, str] = {}
"""Those of dashboards that are for this machine's user, by their address."""


class Server(uvicorn.Server):
    """Leaves signals to whoever runs the tests."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def served(asgi: Any, **settings: Any) -> AsyncIterator[str]:
    """The address at which an ASGI app answers."""
    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        asgi, lifespan="off", log_level="warning", access_log=False, ws="none",
        timeout_graceful_shutdown=1, **settings,
    )  # fmt: skip
    server = Server(config)
    serving = asyncio.create_task(server.serve([listening]))
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        await serving
        listening.close()


@asynccontextmanager
async def dashboard_at(app: Headrace, under: str = "", **options: Any) -> AsyncIterator[str]:
    """The address of the dashboard of an app; `under` a path, it is part of another web app."""
    site = dashboard(app, **options)
    access = site.state.dashboard.access
    async with served(Starlette(routes=[Mount(under, site)]) if under else site) as address:
        if isinstance(access, LocalAccess):
            tokens[address + under] = access.token
        try:
            yield address + under
        finally:
            tokens.pop(address + under, None)
            site.state.dashboard.streams.close()
