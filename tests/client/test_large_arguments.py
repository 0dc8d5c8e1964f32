"""What is far too large is refused before it is encoded."""

from __future__ import annotations

import tracemalloc
from dataclasses import dataclass
from typing import Any

import pytest

from headrace import ArgumentError, Headrace, PayloadTooLarge

LARGE = 9_000_000


@dataclass
class Upload:
    name: str
    data: bytes


@pytest.fixture
def app() -> Headrace:
    return Headrace("memory://")


@pytest.mark.parametrize(
    "value",
    [
        bytes(LARGE),
        bytearray(LARGE),
        memoryview(bytes(LARGE)),
        "x" * LARGE,
        {"files": [bytes(LARGE)]},
        Upload("scan", bytes(LARGE)),
        [0] * LARGE,
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_large_argument_is_refused_without_a_copy_of_it(app: Headrace, value: Any) -> None:
    @app.task
    async def keep(name: str, data: Any) -> None: ...

    sends = (
        lambda: keep.call("a", value),
        lambda: keep.enqueue_sync("a", data=value),
        lambda: keep.call(data=value),
    )
    for send in sends:
        tracemalloc.start()
        try:
            with pytest.raises(PayloadTooLarge) as refused:
                send()
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert refused.value.argument == "data"
        assert refused.value.size >= LARGE
        assert most < LARGE / 4


def test_what_does_not_fit_is_still_said(app: Headrace) -> None:
    @app.task
    async def keep(data: Any) -> None: ...

    with pytest.raises(ArgumentError):
        keep.call(bytes(LARGE), bytes(LARGE))


async def test_a_large_event_is_refused_without_a_copy_of_it(app: Headrace) -> None:
    uploads = app.topic("uploads", Upload)
    async with app:
        await uploads.publish(Upload("scan", b""))
        event = Upload("scan", bytes(LARGE))
        tracemalloc.start()
        try:
            with pytest.raises(PayloadTooLarge):
                await uploads.publish(event)
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert most < LARGE / 4
