"""FastAPI: lifespan, dependency, mounted dashboard."""

# No postponed annotations: FastAPI evaluates those of routes, which name what is local here.

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import pytest
from fastapi import Depends, FastAPI
from fastapi.testclient import TestClient

import headrace
from headrace import ConfigError, Headrace
from headrace.integrations.fastapi import depends, lifespan


@pytest.fixture
def jobs(store_url: str, namespace: str) -> Headrace:
    return Headrace(store_url, namespace=namespace)


def site(jobs: Headrace, **options: Any) -> FastAPI:
    web = FastAPI(lifespan=lifespan(jobs, **options))

    @jobs.task
    async def add(a: int, b: int) -> int:
        return a + b

    @web.post("/sums")
    async def send(
        a: int, b: int, app: Annotated[Headrace, Depends(depends(jobs))]
    ) -> dict[str, str]:
        assert app is jobs
        return {"id": (await add.enqueue(a, b)).id}

    @web.get("/sums/{id}")
    async def look(id: str) -> int:
        value: int = await jobs.job(id).result(timeout=30)
        return value

    return web


def test_a_route_sends_a_job_and_a_worker_beside_it_runs_it(jobs: Headrace) -> None:
    with TestClient(site(jobs, worker={"concurrency": 5})) as client:
        id = client.post("/sums", params={"a": 2, "b": 3}).json()["id"]
        assert client.get(f"/sums/{id}").json() == 5


def test_without_a_worker_the_job_waits_for_one(tmp_path: Path) -> None:
    jobs = Headrace(f"sqlite:///{tmp_path}/jobs.db")
    with TestClient(site(jobs)) as client:
        id = client.post("/sums", params={"a": 2, "b": 3}).json()["id"]

    async def finish() -> int:
        async with jobs, jobs.worker():
            value: int = await jobs.job(id).result(timeout=30)
            return value

    assert asyncio.run(finish()) == 5


def test_the_dashboard_is_mounted_below_a_path(jobs: Headrace) -> None:
    web = site(jobs, worker=True)
    web.mount("/jobs", headrace.dashboard(jobs, insecure=True))
    with TestClient(web) as client:
        client.post("/sums", params={"a": 2, "b": 3})
        page = client.get("/jobs/")
        assert page.status_code == 200
        assert "default" in page.text
        assert 'href="/jobs/queues' in page.text


def test_the_applications_own_lifespan_runs_inside(jobs: Headrace) -> None:
    seen: list[str] = []

    @asynccontextmanager
    async def inner(web: FastAPI) -> AsyncIterator[dict[str, str]]:
        seen.append(type(web).__name__)
        yield {"colour": "blue"}
        seen.append("ended")

    with TestClient(site(jobs, inner=inner)) as client:
        assert client.app_state == {"colour": "blue"}
    assert seen == ["FastAPI", "ended"]


def test_what_is_no_app_is_refused_when_the_program_starts() -> None:
    with pytest.raises(ConfigError, match="takes a Headrace app"):
        lifespan("shop:app")  # type: ignore[arg-type]


def test_a_test_replaces_the_app_of_routes(jobs: Headrace) -> None:
    web, other = site(jobs), Headrace("memory://")

    @web.get("/namespace")
    async def namespace(app: Annotated[Headrace, Depends(depends(jobs))]) -> str:
        return app.url

    web.dependency_overrides[depends(jobs)] = depends(other)
    with TestClient(web) as client:
        assert client.get("/namespace").json() == other.url
        web.dependency_overrides.clear()
        assert client.get("/namespace").json() == jobs.url
    with pytest.raises(ConfigError, match="takes a Headrace app"):
        depends("shop:app")  # type: ignore[arg-type]


def test_routes_send_to_the_store_of_the_test(tmp_path: Path) -> None:
    jobs = Headrace(f"sqlite:///{tmp_path}/jobs.db")
    web = site(jobs, worker=True)
    for _ in range(2):
        # A client that is not entered runs each request in an event loop of its own.
        with jobs.testing():
            assert TestClient(web).post("/sums", params={"a": 2, "b": 3}).json()["id"]
            with TestClient(web) as client:
                id = client.post("/sums", params={"a": 2, "b": 3}).json()["id"]
                assert client.get(f"/sums/{id}").json() == 5
    assert not list(tmp_path.iterdir())
