"""Download the whole arguments, result or log of a job."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from starlette.responses import Response

from headrace.web.errors import PageError
from headrace.web.pages.job import arguments_of
from headrace.web.rendering.formatting import clip, visible
from headrace.web.rendering.values import format_value
from headrace.web.visit import Visit

if TYPE_CHECKING:
    from starlette.requests import Request

    from headrace.admin import JobDetail

_PARTS = ("arguments", "result", "log")


async def download(visit: Visit, request: Request) -> Response:
    """One part of a job as a text file. It is an attachment, so that no browser renders it."""
    part = visit.asked("part")
    if part not in _PARTS:
        raise PageError(404, f"A job has no part {clip(part)}: there are {', '.join(_PARTS)}.")
    detail = await visit.admin.job(visit.asked("id"), visit.query.get("queue"))
    headers = {"Content-Disposition": f'attachment; filename="{part}.txt"'}
    text = await _text(visit, detail, part)
    return Response(text.encode(), media_type="text/plain", headers=headers)


async def _text(visit: Visit, detail: JobDetail, part: str) -> str:
    if part == "log":
        return "".join(f"{visible(line)}\n" for line in detail.log)
    value = arguments_of(visit, detail) if part == "arguments" else detail.result
    # In a thread: megabytes take seconds, and would block the loop.
    return (await asyncio.to_thread(format_value, value, None)).text
