"""`with app.override(url=…)`: the same app on another store, and then as it was."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from headrace import ConfigError, Headrace
from headrace.testing import ManualClock


class Provider:
    def get_credentials(self) -> tuple[str, str]:
        return "user", "secret"


provider = Provider()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "real.db"


@pytest.fixture
def app(path: Path) -> Headrace:
    app = Headrace(f"sqlite:///{path}")

    @app.task(name="add")
    async def add(a: int, b: int) -> int:
        return a + b

    return app


async def waiting(app: Headrace) -> int:
    """How many jobs its store has."""
    return sum(queue.waiting for queue in await app.admin.queues())


def test_nothing_reaches_the_real_store_from_any_loop_or_thread(app: Headrace, path: Path) -> None:
    add = app.tasks["add"]
    with app.override("memory://") as same:
        assert same is app
        assert app.url == "memory://"
        add.enqueue_sync(1, 2)
        asyncio.run(enqueued(app))
        thread = threading.Thread(target=lambda: asyncio.run(enqueued(app)))
        thread.start()
        thread.join()
        # Loops came and went, and the store is still the same.
        assert asyncio.run(waiting(app)) == 3
    assert app.url == f"sqlite:///{path}"
    assert not path.exists()


async def enqueued(app: Headrace) -> None:
    await app.tasks["add"].enqueue(1, 2)


async def test_overrides_nest_and_then_all_is_as_it_was(app: Headrace, tmp_path: Path) -> None:
    async with app:
        await enqueued(app)
        session, store = await app.session(), app.store
        with app.override(f"sqlite:///{tmp_path}/other.db", namespace="other", lease=5):
            await enqueued(app)
            await enqueued(app)
            assert (app.namespace, app.lease) == ("other", 5)
            async with app.override(namespace="third"):
                assert await waiting(app) == 0
                await enqueued(app)
                assert (app.namespace, app.lease) == ("third", 5)
            assert await waiting(app) == 2
        assert (app.namespace, app.lease) == ("headrace", 30)
        assert (await app.session(), app.store) == (session, store)
        assert await waiting(app) == 1


async def test_what_an_override_opened_ends_with_it(app: Headrace) -> None:
    before = threading.active_count()
    with app.override("memory://"):
        await enqueued(app)
        assert threading.active_count() == before + 1
    assert threading.active_count() == before


async def test_an_override_is_refused_while_a_worker_runs(app: Headrace) -> None:
    with app.override("memory://"):
        async with app.worker():
            with pytest.raises(ConfigError, match="a worker of this app runs"):
                app.override(namespace="other").__enter__()
        assert app.namespace == "headrace"
        with app.override(namespace="other"):
            assert app.namespace == "other"


def test_an_override_says_that_a_worker_outlives_it(app: Headrace) -> None:
    override, worker = app.override("memory://"), object()
    with override:
        app.running_workers.add(worker)
        with pytest.raises(ConfigError, match="stop it before"):
            override.__exit__(None, None, None)
        app.running_workers.discard(worker)
        assert app.url != "memory://"
        override.__enter__()


def test_what_only_redis_has_is_left_out_on_sqlite() -> None:
    app = Headrace("redis://nowhere", confirm_replicas=1, confirm_disk=True, require_durable=True)
    with app.override("memory://"):
        assert (app.confirm_replicas, app.confirm_disk, app.require_durable) == (0, False, False)
    assert (app.confirm_replicas, app.confirm_disk, app.require_durable) == (1, True, True)
    with pytest.raises(ConfigError, match="require_durable"):
        asyncio.run(opened(app))


def test_what_only_redis_has_may_come_from_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "URL": "redis://nowhere",
        "CREDENTIAL_PROVIDER": "tests.testing.test_override:provider",
        "CONFIRM_REPLICAS": "1",
        "CONFIRM_DISK": "true",
        "REQUIRE_DURABLE": "true",
    }.items():
        monkeypatch.setenv(f"HEADRACE_{name}", value)
    app = Headrace()
    with app.testing() as headrace:
        assert (app.url, app.credential_provider) == ("memory://", None)
        assert headrace.drain_sync() == 0
    assert (app.url, app.credential_provider) == ("redis://nowhere", provider)


async def opened(app: Headrace) -> None:
    with app.override("memory://", require_durable=True):
        await app.session()


def test_overrides_that_overlap_end_where_the_app_began(app: Headrace) -> None:
    before = app.url
    first, second, third = (app.override("memory://", namespace=name) for name in "abc")
    for each in (first, second, third):
        each.__enter__()
    with pytest.raises(ConfigError, match="one after the other"):
        second.__exit__(None, None, None)
    assert app.namespace == "c"
    with pytest.raises(ConfigError, match="one after the other"):
        first.__exit__(None, None, None)
    assert (app.url, app.namespace) == ("memory://", "c")
    third.__exit__(None, None, None)
    assert (app.url, app.namespace) == (before, "headrace")


async def test_tests_at_the_same_time_never_reach_the_real_store(app: Headrace) -> None:
    @app.task
    async def charge(who: str) -> None: ...

    begun = asyncio.Event()

    async def early() -> None:
        async with app.testing():
            await begun.wait()

    async def late() -> int:
        async with app.testing() as headrace:
            begun.set()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            await charge.enqueue("ada")
            return await headrace.drain()

    before = app.url
    ends = await asyncio.gather(early(), late(), return_exceptions=True)
    assert [type(each) for each in ends] == [ConfigError, int]
    assert ends[1] == 1
    assert app.url == before


def test_wrong_settings_are_refused_before_anything_changes(app: Headrace) -> None:
    for wrong in ({"url": "nonsense://"}, {"lease": -1}, {"namespace": ""}):
        with pytest.raises(ConfigError):
            app.override(**wrong)
    override = app.override("memory://")
    with pytest.raises(ConfigError, match="has not begun"):
        override.__exit__(None, None, None)
    with override, pytest.raises(ConfigError, match="in use"):
        override.__enter__()


def test_redis_has_a_clock_of_its_own() -> None:
    with pytest.raises(ConfigError, match="clock is for SQLite"):
        Headrace("redis://nowhere", clock=ManualClock())
    app = Headrace("memory://", clock=ManualClock())
    with pytest.raises(ConfigError, match="clock is for SQLite"):
        app.override("redis://nowhere", clock=ManualClock())
    with app.override("redis://nowhere"):
        assert not isinstance(app.clock, ManualClock)
    assert isinstance(app.clock, ManualClock)
