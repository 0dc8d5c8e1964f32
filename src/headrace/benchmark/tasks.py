"""An app with nothing to do, for a worker process to wait on."""

from __future__ import annotations

from headrace import Headrace

app = Headrace()


@app.task(result_ttl=0)
async def nothing() -> None:
    """Do nothing."""
