from __future__ import annotations

from pathlib import Path

import pytest

from headrace import Headrace, Topic
from tests.tour.heard import Heard, Paid


@pytest.fixture(params=["memory", "sqlite", "redis", "valkey"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Every kind of store in turn, and of server."""
    if request.param in ("redis", "valkey"):
        url: str = request.getfixturevalue(f"{request.param}_url")
        return url
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/jobs.db"


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def orders(app: Headrace) -> Topic[Paid]:
    return app.topic("orders", Paid, key=lambda event: event.order)
