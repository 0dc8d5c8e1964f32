"""What `make test` leaves to `make conformance`, since it is nearly what it tries itself."""

from __future__ import annotations

import zlib

import pytest

from tests.store.spread import SPREAD

CLASSES = {"TestValkey", "TestMemory"}
"""All of their tests can wait."""


def can_wait(item: pytest.Item) -> bool:
    """Valkey does all as Redis does, and a store in memory as SQLite in a file, by the same code; a
    cluster keeps the promises about one queue with the code of one server. A fault is tried on
    SQLite or on Redis by day, and on the other by night. So are tests with a mark of their own."""
    name = item.parent.name if item.parent else ""
    if name in CLASSES:
        return True
    if name == "TestCluster":
        return getattr(item, "originalname", item.name) not in SPREAD
    if item.get_closest_marker("nightly"):
        return True
    params = item.callspec.params if isinstance(item, pytest.Function) and _has_params(item) else {}
    if "lasting_url" in params:
        name = f"{item.path.name} {getattr(item, 'originalname', item.name)}"
        by_day = ("sqlite", "redis")[zlib.crc32(name.encode()) % 2]
        return bool(params["lasting_url"] != by_day)
    return params.get("store_url") in ("memory", "valkey")


def _has_params(item: pytest.Function) -> bool:
    return hasattr(item, "callspec")
