"""What `make test` leaves to `make conformance`, since it is nearly what it tries itself."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from tests.store.spread import SPREAD

TESTS = Path(__file__).parent
CLASSES = {"TestValkey", "TestMemory"}
"""All of their tests can wait."""


# They stand on the verbs of stores, which conformance and the tour try on each by day.
_ON_TOP = {"admin", "cli", "exposition", "web"}


def can_wait(item: pytest.Item) -> bool:
    """Valkey does all as Redis does, and a store in memory as SQLite in a file, by the same code; a
    cluster keeps the promises about one queue with the code of one server. A fault is tried on
    SQLite or on Redis by day, and on the other by night; so is what stands on top of the stores. A
    store that a test has chosen is tried by day. Tests with a mark of their own can wait."""
    name = item.parent.name if item.parent else ""
    if name in CLASSES:
        return True
    if name == "TestCluster":
        return _name(item) not in SPREAD
    if item.get_closest_marker("nightly"):
        return True
    params = item.callspec.params if isinstance(item, pytest.Function) and _has_params(item) else {}
    if "lasting_url" in params:
        return bool(params["lasting_url"] != _by_day(item))
    if "store_url" not in params or _chooses_its_store(item):
        return False
    if params["store_url"] in ("memory", "valkey"):
        return True
    is_on_top = item.path.relative_to(TESTS).parts[0] in _ON_TOP
    return is_on_top and params["store_url"] != _by_day(item)


def _name(item: pytest.Item) -> str:
    return getattr(item, "originalname", item.name)


def _by_day(item: pytest.Item) -> str:
    """The store on which a test is tried by day, if it is tried on one."""
    return ("sqlite", "redis")[zlib.crc32(f"{item.path.name} {_name(item)}".encode()) % 2]


def _chooses_its_store(item: pytest.Item) -> bool:
    return any("store_url" in mark.args[0] for mark in item.iter_markers("parametrize"))


def _has_params(item: pytest.Function) -> bool:
    return hasattr(item, "callspec")
