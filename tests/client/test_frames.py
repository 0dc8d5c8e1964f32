"""From `task.enqueue` to the store is a short way, which a traceback shows as a whole."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

import pytest

from headrace import Headrace


def frames() -> Iterator[str]:
    """The functions of Headrace that wait for the caller of this one's caller, outermost last."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith("headrace."):
            yield frame.f_code.co_qualname
        frame = frame.f_back


async def test_a_job_is_four_frames_from_the_store(
    app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    @app.task
    async def add(a: int, b: int) -> int:
        return a + b

    way: list[str] = []
    right = app.store.append

    async def append(*args: Any, **options: Any) -> Any:
        way[:] = frames()
        return await right(*args, **options)

    monkeypatch.setattr(app.store, "append", append)
    await add.enqueue(2, 3)
    assert way == [
        "QueueSender._append",
        "Coalescer.send",
        "Outgoing.send_one",
        "Task.enqueue",
    ]
