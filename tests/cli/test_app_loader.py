"""From `module:attribute` to an app."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace import ConfigError, Headrace
from headrace.cli.app_loader import chosen_app, load_app


def test_an_app_in_the_current_directory_is_found(place: Path) -> None:
    (place / "bakery.py").write_text("from headrace import Headrace\napp = Headrace('memory://')\n")
    assert load_app("bakery:app").url == "memory://"


def test_an_app_may_be_deep_inside(place: Path) -> None:
    (place / "firm").mkdir()
    (place / "firm" / "jobs.py").write_text(
        "from headrace import Headrace\nclass Site:\n    app = Headrace('memory://')\n"
    )
    assert isinstance(load_app("firm.jobs:Site.app"), Headrace)


@pytest.mark.parametrize(
    "text", ["", "nowhere", ":app", "nowhere:", "nowhere.py:app()", "a:b:c", "1:2"]
)
def test_what_is_no_import_string_is_refused(place: Path, text: str) -> None:
    with pytest.raises(ConfigError, match="module:attribute"):
        load_app(text)


@pytest.mark.parametrize("name", ["missing:app", "missing.inside:app", "os.missing:app"])
def test_a_missing_module_is_named(place: Path, name: str) -> None:
    with pytest.raises(ConfigError, match=r"there is no module '(missing|os\.missing)'"):
        load_app(name)


def test_a_module_that_misses_another_is_blamed_itself(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "bakery.py").write_text("import flour_and_water\n")
    with pytest.raises(ConfigError, match="'bakery' cannot be imported: ModuleNotFoundError"):
        load_app("bakery:app")
    assert "import flour_and_water" in capsys.readouterr().err


def test_a_module_that_exits_is_blamed(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "bakery.py").write_text("import sys\nsys.exit('closed')\n")
    with pytest.raises(ConfigError, match="SystemExit: closed"):
        load_app("bakery:app")
    assert "sys.exit('closed')" in capsys.readouterr().err


def test_without_an_app_the_url_decides(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_URL", "redis://from-the-environment")
    monkeypatch.setenv("HEADRACE_NAMESPACE", "mine")
    assert chosen_app(None, None, None).url == "redis://from-the-environment"
    assert chosen_app(None, None, None).namespace == "mine"
    chosen = chosen_app(None, "memory://", "yours")
    assert (chosen.url, chosen.namespace) == ("memory://", "yours")


def test_with_nothing_to_look_at_no_store_is_made(place: Path) -> None:
    with pytest.raises(ConfigError, match="say which app or store"):
        chosen_app(None, None, None)
    assert list(place.iterdir()) == []
    (place / "headrace.db").touch()
    assert chosen_app(None, None, None).url == "sqlite:///headrace.db"


def test_an_app_has_its_own_store(place: Path) -> None:
    with pytest.raises(ConfigError, match="not both"):
        chosen_app("shop:app", "memory://", None)
