"""The fixture `headrace`: the program's own app, on a fresh store in memory, for one test.

Each pytest of an environment with Headrace loads this module, so it imports nothing before a test
asks for the fixture: https://docs.pytest.org/en/stable/how-to/writing_plugins.html
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

if TYPE_CHECKING:
    from headrace import Headrace
    from headrace.testing import TestKit


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("headrace_app", "the app for the fixture headrace, as module:name", default="")
    parser.addini("headrace_inline", "whether enqueue runs a job at once", "bool", default=False)
    parser.addini(
        "headrace_real_store",
        "whether tests without the fixture headrace may use the app's own store",
        "bool",
        default=False,
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "headrace(inline=, raise_errors=, now=): options of app.testing() for the fixture headrace",
    )


_HAS_FAILED = pytest.StashKey[bool]()
_GUARDED = pytest.StashKey["list[Headrace]"]()


def pytest_exception_interact(node: pytest.Item | pytest.Collector) -> None:
    node.stash[_HAS_FAILED] = True


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    _guard(item.config)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    _guard(item.config)


def pytest_unconfigure(config: pytest.Config) -> None:
    for app in config.stash.get(_GUARDED, []):
        from pytest_headrace.guard import release

        release(app)


def _guard(config: pytest.Config) -> None:
    """Keep the app that the settings name from its real store, once something has imported it."""
    named = _unquoted(config.getini("headrace_app"))
    module, _, name = named.partition(":")
    found = sys.modules.get(module)
    if found is None or config.getini("headrace_real_store"):
        return
    from pytest_headrace.guard import guard

    app = guard(getattr(found, name, None), named)
    if app is not None:
        config.stash.setdefault(_GUARDED, []).append(app)


@pytest.fixture(scope="session")
def headrace_app(pytestconfig: pytest.Config) -> Headrace:
    """The app to be tested, which the setting `headrace_app` names. A fixture of this name in
    conftest.py replaces it."""
    return imported(pytestconfig.getini("headrace_app"))


@pytest.fixture
def headrace(request: pytest.FixtureRequest, headrace_app: Headrace) -> Iterator[TestKit]:
    """The app on a fresh store in memory, and what a test asks and does about its jobs."""
    marker = request.node.get_closest_marker("headrace")
    options = {"inline": request.config.getini("headrace_inline")}
    with headrace_app.testing(**options | (marked(marker) if marker else {})) as kit:
        yield kit
        if request.node.stash.get(_HAS_FAILED, False):
            # What it asked for may come after the line that failed.
            kit._forget()


_OPTIONS = ("inline", "raise_errors", "now")


def marked(marker: pytest.Mark) -> dict[str, Any]:
    """The options that a mark gives to `app.testing()`; others fail the test with one sentence."""
    wrong = [*map(repr, marker.args), *(f"{each}=" for each in marker.kwargs.keys() - _OPTIONS)]
    if wrong:
        _refuse(
            f"@pytest.mark.headrace takes inline=, raise_errors= and now=, not {', '.join(wrong)}"
        )
    return dict(marker.kwargs)


def imported(named: str) -> Headrace:
    """The app that a text such as `shop:app` names; else the test fails with one sentence."""
    from importlib import import_module

    from headrace import Headrace

    named = _unquoted(named)
    module, _, name = named.partition(":")
    if not module or not name:
        _refuse(
            "the fixture headrace needs the app to be tested: set headrace_app = shop:app in "
            f"pytest's settings, or write a fixture headrace_app; it is {named!r}"
        )
    try:
        found = import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        _refuse(
            f"headrace_app = {named}: there is no module {error.name!r}; if it is in the folder of "
            "the tests, pytest's setting pythonpath = . lets it be found"
        )
    app = getattr(found, name, None)
    if not isinstance(app, Headrace):
        from headrace.cli.app_loader import apps_of

        what = f"module {module!r} has no {name!r}"
        if app is not None:
            what = f"it is not a Headrace app but of type {type(app).__name__}"
        _refuse(f"headrace_app = {named}: {what}{apps_of(found)}")
    return app


def _unquoted(named: str) -> str:
    """Other settings files need quotes, pytest.ini takes them as they are."""
    return named.strip().strip("\"'")


def _refuse(why: str) -> NoReturn:
    pytest.fail(why, pytrace=False)
