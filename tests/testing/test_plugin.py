"""The pytest plugin, in a program of its own."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

import pytest_headrace
from headrace import Headrace

SHOP = """
    from headrace import Headrace

    app = Headrace("sqlite:///real.db")
    outbox = []
    number = 5

    @app.task
    def send_mail(to: str) -> None:
        outbox.append(to)

    @app.cron("0 9 * * *")
    async def daily() -> None:
        outbox.append("daily")
"""
TESTS = """
    import sys
    import threading
    import unittest

    import pytest
    from headrace import ConfigError
    from headrace.testing import perform_sync
    from shop import app, outbox, send_mail

    @pytest.fixture(autouse=True)
    def empty():
        outbox.clear()

    def test_a_plain_one(headrace):
        send_mail.enqueue_sync("ada")
        assert outbox == []
        assert headrace.drain_sync() == 1
        assert outbox == ["ada"]

    @pytest.mark.asyncio
    @pytest.mark.parametrize("_", range(3))
    async def test_an_async_one_begins_empty(headrace, _):
        await send_mail.enqueue("bob")
        assert await headrace.drain() == 1
        headrace.clock.advance(days=3)
        assert await headrace.drain() == 3
        assert outbox == ["bob", "daily", "daily", "daily"]

    @pytest.mark.anyio
    async def test_an_anyio_one(headrace):
        await send_mail.enqueue("eve")
        assert await headrace.drain() == 1

    @pytest.fixture
    def anyio_backend():
        return "asyncio"

    @pytest.mark.headrace(inline=True)
    def test_an_inline_one(headrace):
        send_mail.enqueue_sync("ada")
        assert outbox == ["ada"]

    class TestWithUnittest(unittest.TestCase):
        def setUp(self):
            self.headrace = self.enterContext(app.testing())

        def test_it(self):
            send_mail.enqueue_sync("ada")
            self.assertEqual(self.headrace.drain_sync(), 1)

    class TestAsyncUnittest(unittest.IsolatedAsyncioTestCase):
        async def asyncSetUp(self):
            self.headrace = await self.enterAsyncContext(app.testing())

        async def test_it(self):
            await send_mail.enqueue("ada")
            self.assertEqual(await self.headrace.drain(), 1)

    def test_without_the_fixture_the_real_store_is_not_reached():
        with pytest.raises(ConfigError, match="shop:app is used outside of the fixture headrace"):
            send_mail.enqueue_sync("ada")
        assert perform_sync(send_mail, "ada").done
        with app.override(url="sqlite:///other.db"):
            send_mail.enqueue_sync("ada")

    @pytest.mark.asyncio
    async def test_a_web_app_may_start_before_the_fixture(request):
        async with app:
            kit = request.getfixturevalue("headrace")
            await send_mail.enqueue("ada")
            assert await kit.drain() == 1

    def test_nothing_is_left():
        left = [each.name for each in threading.enumerate() if each.name == "headrace-sqlite"]
        assert left == []
"""


OWN_APP = """
    import pytest
    from headrace import Headrace

    @pytest.fixture
    def headrace_app():
        return Headrace("redis://nowhere", namespace="own")
"""
SETTINGS = """
    [pytest]
    headrace_app = shop:app
    pythonpath = .
    filterwarnings = error
    addopts = --strict-markers -p no:randomly -p no:xdist -p no:cacheprovider -p pytest_headrace
    asyncio_default_fixture_loop_scope = function
"""
WRONG = """
    import pytest

    def test_that_fails_says_one_thing(headrace):
        headrace.crash(after="run")
        headrace.fail("settle")
        headrace.drain()
        assert not "this line"

    def test_in_which_a_fault_did_not_happen(headrace):
        headrace.crash(after="run")

    def test_that_does_not_await(headrace):
        headrace.drain()

    @pytest.mark.headrace(raise_error=False)
    def test_with_an_option_that_there_is_not(headrace):
        pass
"""
START = """
    import sys

    def pytest_collection():
        assert "pytest_headrace" in sys.modules
        assert "headrace" not in sys.modules, "the plugin costs everyone's tests time"
"""


def test_the_fixture_is_there_for_all_kinds_of_tests(tmp_path: Path) -> None:
    files = {
        "shop.py": SHOP,
        "test_shop.py": TESTS,
        "test_wrong.py": WRONG,
        "pytest.ini": SETTINGS,
        "conftest.py": START,
        "own/conftest.py": OWN_APP,
        "own/test_own.py": "def test_it(headrace): assert headrace.app.namespace == 'own'",
    }
    done = _tested(tmp_path, files)
    assert "1 failed, 14 passed, 3 errors in" in done.stdout, done.stdout + done.stderr
    assert done.stdout.count("E       AssertionError: crash(after='run') did not happen") == 1
    assert done.stdout.count("E       AssertionError: drain() was not awaited") == 1
    assert "\n@pytest.mark.headrace takes inline=, raise_errors= and now=, not" in done.stdout
    assert not (tmp_path / "real.db").exists()


def test_a_setting_allows_the_real_store(tmp_path: Path) -> None:
    tests = "from shop import send_mail\ndef test_it(): send_mail.enqueue_sync('ada')"
    settings = f"{dedent(SETTINGS)}headrace_real_store = true"
    files = {"shop.py": SHOP, "test_real.py": tests, "pytest.ini": settings}
    assert "1 passed" in _tested(tmp_path, files).stdout
    assert (tmp_path / "real.db").exists()


def _tested(folder: Path, files: dict[str, str]) -> subprocess.CompletedProcess[str]:
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(dedent(text))
    return subprocess.run(
        [sys.executable, "-m", "pytest"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTEST_ADDOPTS": ""},
    )


def test_the_kit_needs_no_pytest() -> None:
    program = """
        import sys
        sys.modules["pytest"] = None
        from headrace import Headrace
        from headrace.testing import ManualClock, TestKit, context, perform
        app = Headrace()
        with app.testing() as headrace:
            headrace.drain_sync()
        try:
            from headrace.testing import StoreConformance
        except ModuleNotFoundError as error:
            print(error)
    """
    done = subprocess.run(
        [sys.executable, "-c", dedent(program)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "StoreConformance is a suite of pytest tests: pip install pytest\n"


def test_a_mark_with_other_options_is_one_sentence() -> None:
    mark = pytest.mark.headrace(inline=True, raise_error=False).mark
    says = "@pytest.mark.headrace takes inline=, raise_errors= and now=, not raise_error="
    with pytest.raises(pytest.fail.Exception, match=re.escape(says)) as failed:
        pytest_headrace.marked(mark)
    assert failed.value.pytrace is False
    with pytest.raises(pytest.fail.Exception, match="not True"):
        pytest_headrace.marked(pytest.mark.headrace(True).mark)
    of_testing = inspect.signature(Headrace.testing).parameters.keys() - {"self"}
    every = pytest.mark.headrace(**dict.fromkeys(of_testing)).mark
    assert pytest_headrace.marked(every).keys() == of_testing


def test_a_missing_or_wrong_app_is_one_sentence() -> None:
    for named, sentence in {
        "": "needs the app to be tested: set headrace_app = shop:app",
        "tests.testing.test_plugin:SHOP": "it is not a Headrace app but of type str, and no",
        "tests.testing.test_plugin:app": "module 'tests.testing.test_plugin' has no 'app', and no",
        "tests.testing.test_sent:ap": "has no 'ap': write tests.testing.test_sent:app",
        "nowhere:app": "headrace_app = nowhere:app: there is no module 'nowhere'; if it is in",
    }.items():
        with pytest.raises(pytest.fail.Exception, match=re.escape(sentence)) as failed:
            pytest_headrace.imported(named)
        assert failed.value.pytrace is False
    assert pytest_headrace.imported('"tests.testing.test_sent:app"').url == "memory://"
