"""What `make test` leaves to `make conformance`, since it is nearly what it tries itself."""

from __future__ import annotations

import pytest

from tests.store.spread import SPREAD


def can_wait(item: pytest.Item) -> bool:
    """Valkey runs the tour, and all else as Redis does; a store in memory runs the tour, and all
    else as SQLite in a file, by the same code; a cluster keeps the promises about one queue with
    the code of one server."""
    match item.parent.name if item.parent else "":
        case "TestValkey" | "TestMemory":
            return True
        case "TestCluster":
            return getattr(item, "originalname", item.name) not in SPREAD
    params = item.callspec.params if isinstance(item, pytest.Function) and _has_params(item) else {}
    return params.get("store_url") == "memory" and "tour" not in item.path.parts


def _has_params(item: pytest.Function) -> bool:
    return hasattr(item, "callspec")
