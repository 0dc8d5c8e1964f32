"""The log records of a worker, for tests."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from tests.worker.states import until


class Records:
    """What was logged so far."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO, "headrace")
        self._caplog = caplog

    def __call__(self, level: str = "", part: str = "") -> list[Any]:
        """The records of a level that have this text in them."""
        return [
            record
            for record in self._caplog.records
            if record.levelname.startswith(level) and part in record.getMessage()
        ]

    def texts(self, level: str = "", part: str = "") -> list[str]:
        return [record.getMessage() for record in self(level, part)]

    async def one(self, level: str, part: str) -> Any:
        """The record of this level and text, once there is one."""
        await until(lambda: self(level, part))
        (record,) = self(level, part)
        return record
