"""The dashboard for Grafana and the example for KEDA speak of metrics that there are."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from headrace import Headrace
from headrace.cli import main as program
from headrace.cli.processes.worker import worker
from headrace.core.workers import Scaled, SupervisorRecord
from headrace.exposition import store_families
from headrace.metrics import families
from headrace.metrics.totals import Presence, TotalsSnapshot

EXAMPLES = Path(__file__).parents[2] / "examples"
GRAFANA = EXAMPLES / "grafana.json"
KEDA = EXAMPLES / "keda.yaml"


@pytest.fixture
async def names() -> set[str]:
    """Of all metrics that a worker, a parent or a dashboard can serve."""
    app = Headrace("memory://")
    async with app:
        view = await store_families.StoreReader().read(app.admin)
    assert view is not None
    scaled = Scaled(1, 1, 2, 10)
    view.supervisors.append(SupervisorRecord("host", 1, scaled))
    snapshot = TotalsSnapshot(presence=Presence(consumers={"billing@orders": scaled}))
    found = [
        *families.worker_families(snapshot),
        *families.supervisor_families(scaled),
        *families.fleet_families({}),
        *store_families.store_families(view),
        *store_families.capacity_families(view),
    ]
    suffixes = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count"), "gauge": ("",)}
    return {f"headrace_{each.name}{end}" for each in found for end in suffixes[each.kind]}


def mentioned(text: str) -> set[str]:
    return set(re.findall(r"\bheadrace_\w+", text))


def panels(dashboard: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for panel in dashboard["panels"]:
        yield panel
        yield from panel.get("panels", [])


def test_grafana_asks_for_metrics_that_there_are(names: set[str]) -> None:
    dashboard = json.loads(GRAFANA.read_text())
    asked = {t["expr"] for panel in panels(dashboard) for t in panel.get("targets", [])}
    assert len(asked) > 20
    assert mentioned(GRAFANA.read_text()) <= names
    ids = [panel["id"] for panel in panels(dashboard)]
    assert len(ids) == len(set(ids))
    for expression in asked:
        assert expression.count("(") == expression.count(")")


def test_grafana_shows_all_that_a_worker_counts(names: set[str]) -> None:
    counted = {name for name in names if name.endswith(("_total", "_bucket"))}
    assert counted <= mentioned(GRAFANA.read_text())


def test_keda_scales_by_metrics_that_there_are(names: set[str]) -> None:
    deployment, scaled = yaml.safe_load_all(KEDA.read_text())
    assert scaled["spec"]["scaleTargetRef"]["name"] == deployment["metadata"]["name"]
    queries = [trigger["metadata"]["query"] for trigger in scaled["spec"]["triggers"]]
    assert all(mentioned(query) and mentioned(query) <= names for query in queries)


def test_the_workers_of_the_example_start_and_are_probed_where_they_answer() -> None:
    deployment, _ = yaml.safe_load_all(KEDA.read_text())
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    command, *arguments = container["args"]
    assert command == worker.name
    context = worker.make_context("worker", arguments, **program.context_settings)
    assert context.params["metrics_port"] == container["ports"][0]["containerPort"]
    assert context.params["metrics_host"] == "0.0.0.0"
    probes = [container[kind]["httpGet"]["path"] for kind in ("livenessProbe", "readinessProbe")]
    assert probes == ["/healthz", "/readyz"]
    assert deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] > float(
        context.params["drain"]
    )
