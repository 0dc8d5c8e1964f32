"""What pages, exports and commands take over a store that someone has filled, in full size: see
`tests/budget`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.budget.planting import name_queues
from tests.budget.test_budget import beyond, figures_of, planted
from tests.budget.things import things, those_of_all_queues

LONG = 540.0
# Jobs are ten times as large as by day, or ten times as many.
TENFOLD = 5.0


@pytest.fixture(params=["sqlite", "redis"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "redis":
        return str(request.getfixturevalue("redis_url"))
    return f"sqlite:///{tmp_path}/jobs.db"


def test_no_job_in_a_store_fills_the_memory_of_who_looks(
    url: str, namespace: str, tmp_path: Path
) -> None:
    planted(url, namespace, 1.0)
    assert beyond(figures_of(url, namespace, tmp_path, things(), LONG), TENFOLD) == []


def test_no_names_of_queues_fill_the_memory_of_who_looks(
    url: str, namespace: str, tmp_path: Path
) -> None:
    planted(url, namespace, 0)
    name_queues(url, namespace, 1.0)
    assert beyond(figures_of(url, namespace, tmp_path, those_of_all_queues(), LONG), TENFOLD) == []
