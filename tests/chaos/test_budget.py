"""What pages, exports and commands take over a store that someone has filled, in full size: see
`tests/budget`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.budget.planting import name_queues
from tests.budget.test_budget import beyond, figures_of, planted
from tests.budget.things import things

LONG = 1_800.0
# Jobs are ten times as large as by day, or ten times as many.
TENFOLD = 5.0


@pytest.mark.parametrize("kind", ["sqlite", "redis"])
def test_nothing_that_is_in_a_store_fills_the_memory_of_who_looks(
    kind: str, namespace: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    if kind == "redis":
        url = request.getfixturevalue("redis_url")
    planted(url, namespace, 1.0)
    name_queues(url, namespace, 1.0)
    assert beyond(figures_of(url, namespace, tmp_path, things(), LONG), TENFOLD) == []
