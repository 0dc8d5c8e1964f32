"""Flask: sending from views without an event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest
from flask import Flask

from headrace import ConfigError, Headrace
from headrace.integrations.flask import current_jobs, init_app


@pytest.fixture
def jobs(store_url: str, namespace: str) -> Iterator[Headrace]:
    app = Headrace(store_url, namespace=namespace)
    yield app
    app.portal.close()


def site(jobs: Headrace) -> Flask:
    web = Flask("shop")
    init_app(web, jobs)

    @jobs.task
    def add(a: int, b: int) -> int:
        return a + b

    @web.post("/sums/<int:a>/<int:b>")
    def send(a: int, b: int) -> str:
        assert current_jobs() is jobs
        return add.enqueue_sync(a, b).id

    @web.get("/sums/<id>")
    def look(id: str) -> str:
        return str(current_jobs().job(id).result_sync(timeout=30))

    return web


def test_views_send_jobs_and_wait_for_them(jobs: Headrace) -> None:
    client, ended = site(jobs).test_client(), threading.Event()

    async def work() -> None:
        async with jobs, jobs.worker():
            await asyncio.to_thread(ended.wait)

    worker = threading.Thread(target=asyncio.run, args=(work(),))
    worker.start()
    try:
        id = client.post("/sums/2/3").text
        assert client.get(f"/sums/{id}").text == "5"
    finally:
        ended.set()
        worker.join()


def test_an_application_without_an_app_gets_advice() -> None:
    with Flask("bare").app_context(), pytest.raises(ConfigError, match="init_app"):
        current_jobs()
    with pytest.raises(ConfigError, match="takes a Headrace app"):
        init_app(Flask("bare"), "shop:app")  # type: ignore[arg-type]
