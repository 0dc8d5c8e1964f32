"""`admin.remove_queue`: also of names that nobody could have sent to."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest
from click.testing import CliRunner

from headrace import ConfigError, Headrace, JobNotFound
from headrace.cli import main
from tests.faults.odd_values import OddRedis

REFUSED = ["bad name", "a{b}", "x" * 300, "tab\there", "@", "@bad topic", "@a@b"]


async def test_an_empty_queue_is_removed_and_one_with_jobs_only_by_force(app: Headrace) -> None:
    @app.task(queue="mail")
    async def send() -> None: ...

    job = await send.enqueue()
    with pytest.raises(ConfigError, match="queue 'mail' holds 1 job: let them end"):
        await app.admin.remove_queue("mail")
    await app.admin.cancel(job.id)
    assert await app.admin.remove_queue("mail")
    assert "mail" not in await (await app.session()).store.queues()
    await send.enqueue()
    assert await app.admin.remove_queue("mail", force=True)
    assert (await app.admin.queue("mail")).waiting == 0
    assert not await app.admin.remove_queue("mail")


async def test_a_queue_that_a_worker_reads_is_removed_only_by_force(app: Headrace) -> None:
    @app.task(queue="mail")
    async def send() -> None: ...

    async with app.worker():
        await (await send.enqueue()).result(60)
        with pytest.raises(ConfigError, match="reads queue 'mail': stop it first"):
            await app.admin.remove_queue("mail")
    assert await app.admin.remove_queue("mail")


async def test_a_worker_goes_on_when_the_queue_that_it_reads_is_removed_by_force(
    app: Headrace,
) -> None:
    begun, over = asyncio.Event(), asyncio.Event()

    @app.task(queue="mail")
    async def hold() -> None:
        begun.set()
        await over.wait()

    @app.task(queue="mail")
    async def double(number: int) -> int:
        return 2 * number

    async with app.worker():
        held = await hold.enqueue()
        await begun.wait()
        assert await app.admin.remove_queue("mail", force=True)
        over.set()
        assert await (await double.enqueue(2)).result(60) == 4
    with pytest.raises(JobNotFound):
        await held.status()
    assert await app.admin.remove_queue("mail")
    assert "mail" not in await (await app.session()).store.queues()


async def test_topics_are_not_removed_as_queues(app: Headrace) -> None:
    for name in ("@orders", "@orders#1", "billing@orders"):
        with pytest.raises(ConfigError, match="belongs to a topic"):
            await app.admin.remove_queue(name, force=True)


@pytest.mark.parametrize("name", [*REFUSED, "", "\\xff\\xfe"])
async def test_a_name_that_was_written_into_redis_by_hand_is_removed(
    name: str, redis_url: str, namespace: str
) -> None:
    odd = OddRedis(redis_url, namespace)
    odd.run("SADD", odd.names, b"\xff\xfe" if name == "\\xff\\xfe" else name)
    async with Headrace(redis_url, namespace=namespace) as app:
        assert await app.admin.remove_queue(name)
        assert odd.run("SMEMBERS", odd.names) in (set(), [])
        assert not await app.admin.remove_queue(name)
    odd.client.close()


async def test_a_job_under_such_a_name_keeps_it(redis_url: str, namespace: str) -> None:
    async with Headrace(redis_url, namespace=namespace) as app:
        odd = OddRedis(redis_url, namespace)
        keys = (await app.session()).store.keys("bad name")  # type: ignore[attr-defined]
        odd.run("SADD", odd.names, "bad name")
        odd.run("XADD", keys.ready, "*", "j", "x")
        odd.run("SET", f"{keys.unique}left", "x")
        with pytest.raises(ConfigError, match="holds 1 job"):
            await app.admin.remove_queue("bad name")
        assert await app.admin.remove_queue("bad name", force=True)
        assert odd.run("KEYS", f"*{namespace}:*") == []
        odd.client.close()


@pytest.mark.parametrize("name", REFUSED)
async def test_a_name_that_was_written_into_sqlite_by_hand_is_removed(
    name: str, tmp_path: Path
) -> None:
    async with Headrace(f"sqlite:///{tmp_path}/jobs.db", namespace="n") as app:
        await app.admin.queues()
        with sqlite3.connect(tmp_path / "jobs.db") as connection:
            connection.execute("INSERT INTO queues (namespace, name) VALUES ('n', ?)", (name,))
        connection.close()
        assert await app.admin.remove_queue(name)
        assert await app.admin.queues() == []


def test_the_command_removes_a_queue_and_says_so(redis_url: str, namespace: str) -> None:
    odd = OddRedis(redis_url, namespace)
    odd.run("SADD", odd.names, "bad name")
    odd.client.close()
    env = {"HEADRACE_URL": redis_url, "HEADRACE_NAMESPACE": namespace}
    command = ["queues", "remove", "bad name"]
    first, second = (CliRunner(env=env).invoke(main, command) for _ in range(2))
    assert (first.exit_code, first.output) == (0, "removed queue bad name\n")
    assert second.exit_code == 1
    assert "there is no queue 'bad name'" in second.output
    forced = CliRunner(env=env).invoke(main, [*command, "--force"])
    assert "say --yes" in forced.output
