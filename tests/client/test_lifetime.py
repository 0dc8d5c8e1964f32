"""Sessions, loops and URLs: what is opened is closed, and what is wrong is said."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from headrace import ConfigError, Headrace, Retry, StoreUnavailable
from headrace.core.job.retry import full_name
from tests.servers import RedisServer

SCRIPT = """
from headrace import Headrace

app = Headrace({url!r})

@app.task
def add(a: int, b: int) -> int:
    return a + b

print(add.enqueue_sync(1, 2).id)
"""


@pytest.mark.parametrize("url", ["sqlite:///jobs.db", "memory://"])
def test_a_plain_script_sends_and_ends_quietly(tmp_path: Path, url: str) -> None:
    (tmp_path / "script.py").write_text(SCRIPT.format(url=url))
    ran = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")


def test_a_thread_that_cannot_be_had_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    app = Headrace("memory://")

    @app.task
    async def add(a: int, b: int) -> int:
        return a + b

    def none_left(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", none_left)
        for _ in range(2):
            with pytest.raises(RuntimeError, match="can't start new thread"):
                add.enqueue_sync(1, 2)
        app.portal.close()
    sent = app.portal.start(add.enqueue(1, 2))
    assert sent.result(timeout=60).id
    app.portal.close()


def test_loops_that_come_and_go_leave_no_connections(redis_server: RedisServer) -> None:
    app = Headrace(redis_server.url)

    @app.task
    async def add(a: int, b: int) -> int:
        return a + b

    async def once() -> None:
        async with app:
            await add.enqueue(1, 2)

    for _ in range(20):
        asyncio.run(once())
    assert redis_server.call("CLIENT", "LIST").count(b"addr=") <= 3


async def test_one_who_waits_when_the_app_is_closed_gets_an_error(app: Headrace) -> None:
    @app.task
    async def never() -> None: ...

    job = await never.enqueue()
    waiting = asyncio.create_task(job.result(60))
    await asyncio.sleep(0.1)
    await app.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        await waiting


async def test_results_of_two_queues_are_heard_from_the_first_moment(app: Headrace) -> None:
    @app.task(queue="a")
    async def first() -> str:
        return "a"

    @app.task(queue="b")
    async def second() -> str:
        return "b"

    jobs = [await first.enqueue(), await second.enqueue()]
    waiting = [asyncio.create_task(job.result(60)) for job in jobs]
    async with app.worker():
        assert await asyncio.gather(*waiting) == ["a", "b"]


@pytest.mark.parametrize(
    "url",
    [
        "redis://localhost/0?protocol=3",
        "redis://localhost/0?decode_responses=true",
        "redis://localhost/0?bogus=1",
        "redis://localhost/abc",
        "redis://[::1/0",
        "mysql://localhost",
        "",
    ],
)
def test_a_url_that_would_not_do_is_refused(url: str) -> None:
    with pytest.raises(ConfigError):
        _ = Headrace(url).store


def test_an_unknown_kind_of_store_is_refused_when_the_app_is_declared() -> None:
    with pytest.raises(ConfigError, match=r"unknown store URL 'pigeon://\*\*\*@loft': use one of"):
        Headrace("pigeon://ann:secret@loft")


def test_a_url_must_be_text() -> None:
    with pytest.raises(ConfigError, match="must be a text"):
        Headrace(3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "url", ["redis://user:secret@host/x", "redis://host/0?password=secret&bogus=1"]
)
def test_passwords_are_not_shown(url: str) -> None:
    with pytest.raises(ConfigError) as refused:
        _ = Headrace(url).store
    assert "secret" not in str(refused.value)


def test_more_than_the_limit_beside_the_arguments_is_refused() -> None:
    app = Headrace("memory://")

    @app.task
    def small() -> None: ...

    with pytest.raises(ConfigError, match="headers, tags and retry take"):
        small.options(headers={"x": "a" * 200_000})
    with pytest.raises(ConfigError, match="headers, tags and retry take"):
        small.options(retry=Retry(3, backoff=[1.0] * 10_000))


def test_times_beyond_all_bounds_are_refused() -> None:
    with pytest.raises(ConfigError, match="lease"):
        Headrace("memory://", lease=sys.maxsize)
    with pytest.raises(ConfigError, match="result_ttl"):
        Headrace("memory://").task(result_ttl=sys.maxsize)(test_a_url_must_be_text)


def test_an_exception_of_a_script_goes_by_the_name_others_import_it_by(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(
        "from headrace.core.job.retry import full_name\n"
        "class OutOfStock(Exception): ...\n"
        "print(full_name(OutOfStock))\n"
    )
    for command in (["shop.py"], ["-m", "shop"], ["-c", "import shop"]):
        ran = subprocess.run(
            [sys.executable, *command], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        assert ran.stdout == "shop.OutOfStock\n"
    assert full_name(ValueError) == "ValueError"
