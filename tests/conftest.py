"""Servers for the tests: real ones, started here and stopped here."""

from __future__ import annotations

import gc
import os
import signal
import threading
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

# Before it is imported, so that its failures say what was compared.
pytest.register_assert_rewrite("headrace.testing.conformance", "tests.faults", "tests.store")

from headrace import Headrace  # noqa: E402
from headrace.store.sqlite.store import SqliteStore  # noqa: E402
from headrace.testing import ManualClock  # noqa: E402
from tests import nightly, settles  # noqa: E402
from tests.servers import RedisCluster, RedisServer, newest_server_binary  # noqa: E402

# What runs in the background of a shell ignores Ctrl-C, what `nohup` starts a hang-up, and so would
# the programs that tests start and send these.
if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

TESTS = Path(__file__).parent

# Minutes long: `make chaos` sets the variable.
collect_ignore = [] if os.environ.get("HEADRACE_CHAOS") else ["chaos"]


settles.watch()


def pytest_configure() -> None:
    """Collect without a search for garbage: each test process makes millions of objects, and keeps
    all of them. Tests spare themselves that search too."""
    gc.disable()


def pytest_pycollect_makeitem(name: str) -> list[pytest.Item] | None:
    """By day make no tests of classes that can wait: there are thousands."""
    by_day = not os.environ.keys() & {"HEADRACE_CHAOS", "HEADRACE_CONFORMANCE"}
    return [] if by_day and name in nightly.CLASSES else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """By day leave what can wait; that is what `make conformance` runs, which sets the variable."""
    if os.environ.get("HEADRACE_CHAOS"):
        return
    by_night = bool(os.environ.get("HEADRACE_CONFORMANCE"))
    left = [item for item in items if nightly.can_wait(item) is not by_night]
    config.hook.pytest_deselected(items=left)
    items[:] = _side_by_side([item for item in items if nightly.can_wait(item) is by_night])


def _side_by_side(items: list[pytest.Item]) -> list[pytest.Item]:
    """The tests of a folder one after another, in the order in which they come, and the folders in
    the order of their first: what they have in common, such as a cluster, a parsed package or an
    imported library, is then made by one or two test processes rather than by each."""
    places = {folder: at for at, folder in enumerate(dict.fromkeys(map(_folder, items)))}
    return sorted(items, key=lambda item: places[_folder(item)])


def _folder(item: pytest.Item) -> str:
    return item.path.relative_to(TESTS).parts[0]


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def _settles_do_not_fail(request: pytest.FixtureRequest) -> Iterator[None]:
    """Unless a test says that it makes them fail, with `pytest.mark.settles_fail`."""
    settles.failures.clear()
    yield
    if not request.node.get_closest_marker("settles_fail"):
        assert settles.failures == [], "a settle failed, and was repeated or given up"


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Redis that all tests share; each uses a namespace of its own."""
    given = os.environ.get("HEADRACE_TEST_REDIS_URL")
    if given:
        yield given
        return
    with RedisServer(tmp_path_factory.mktemp("redis")) as server:
        yield server.url


@pytest.fixture(scope="session")
def valkey_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The same on the newest Valkey."""
    folder = tmp_path_factory.mktemp("valkey")
    with RedisServer(folder, binary=newest_server_binary()) as server:
        yield server.url


@pytest.fixture
def redis_server(tmp_path: Path) -> Iterator[RedisServer]:
    """A Redis of one's own, to be stopped, filled and broken."""
    with RedisServer(tmp_path) as server:
        yield server


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisCluster]:
    """Three masters that all tests share; each uses keys of its own."""
    with RedisCluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture
def namespace() -> str:
    return f"test-{uuid.uuid4().hex[:12]}"


@pytest.fixture(params=["memory", "sqlite", "redis"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Every kind of store in turn."""
    if request.param == "redis":
        url: str = request.getfixturevalue("redis_url")
        return url
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/jobs.db"


@pytest.fixture
async def app(store_url: str, namespace: str) -> AsyncIterator[Headrace]:
    """An app on every kind of store, with a lease short enough to wait for."""
    app = Headrace(store_url, namespace=namespace, lease=0.6)
    async with app:
        yield app
    # Its thread would find that the file is gone, and say so after the last test.
    app.portal.close()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(downtime=True)


@pytest.fixture
async def store(clock: ManualClock) -> AsyncIterator[SqliteStore]:
    """A store in memory whose time tests move."""
    store = SqliteStore("memory://", namespace="test", crash_limit=3, clock=clock)
    await store.open()
    yield store
    await store.close()
