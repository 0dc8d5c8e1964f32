"""`headrace dashboard`: where it listens, whom it lets in, how it ends."""

from __future__ import annotations

import base64
import json
import re
import signal
import socket
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import pytest
from click.testing import CliRunner

from headrace.cli import main
from headrace.errors import ConfigError
from tests.cli.conftest import Start
from tests.cli.programs import Program


def refused(*arguments: str, env: dict[str, str] | None = None) -> str:
    """What is said instead of serving."""
    result = CliRunner().invoke(main, ["dashboard", "shop:app", *arguments], env=env)
    assert result.exit_code == 2
    (line,) = result.output.splitlines()
    return line


def url_of(program: Program, pattern: str = r"dashboard: (http://\S+)") -> str:
    program.says("Ctrl-C")
    found = re.search(pattern, program.output)
    assert found, program.output
    return found[1]


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "shop.example"])
def test_others_than_this_machine_need_a_password(host: str) -> None:
    assert "--auth name:password" in refused("--host", host)


@pytest.mark.usefixtures("shop")
def test_what_is_wrong_is_told_in_a_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert "address already in use; choose others" in refused("--port", port)
        metrics = refused("--port", "0", "--metrics-port", port)
        assert "--metrics-port" in metrics
    assert "without --metrics-port" in refused("--metrics-host", "0.0.0.0")
    assert "name:password" in refused("--auth", "ann")
    assert "not both" in refused("--auth", "ann:x", "--insecure")
    assert "not both" in refused("--insecure", env={"HEADRACE_DASHBOARD_AUTH": "ann:x"})


def test_it_serves_until_it_is_told_to_end_also_those_who_follow_a_page(
    shop: Path, start: Start
) -> None:
    program = start("dashboard", "shop:app", "--port", "0", "--metrics-port", "0")
    url = url_of(program)
    with urllib.request.urlopen(url) as answer:
        assert b"<h1>Overview</h1>" in answer.read()
    metrics = url_of(program, r"metrics at (http://\S+)")
    with urllib.request.urlopen(f"{metrics}/metrics") as answer:
        assert b"headrace_store_up 1.0" in answer.read()
    with urllib.request.urlopen(f"{url}live?view=/") as stream:
        assert stream.readline() == b"retry: 500\n"
        program.send(signal.SIGTERM)
        assert stream.read(), "the stream ends"
    assert program.ended() == 0
    assert "Traceback" not in program.output


def test_deeds_are_logged_in_the_form_that_was_asked_for(shop: Path, start: Start) -> None:
    program = start("dashboard", "shop:app", "--port", "0", "--log-format", "json")
    url = url_of(program)
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    with browser.open(f"{url}queue?name=mail") as answer:
        token = re.search(r'name="token" value="(\w+)"', answer.read().decode())
    assert token
    sent = urllib.parse.urlencode({"token": token[1], "queue": "mail"}).encode()
    browser.open(f"{url}do/pause", sent).close()
    program.says('"verb": "pause"')
    (line,) = [each for each in program.output.splitlines() if "headrace.audit" in each]
    assert json.loads(line)["level"] == "INFO"


def test_metrics_are_for_this_machine_whoever_may_see_the_dashboard(
    shop: Path, start: Start
) -> None:
    open_to_all = ("--host", "0.0.0.0", "--port", "0", "--insecure", "--metrics-port", "0")
    alone = start("dashboard", "shop:app", *open_to_all)
    assert url_of(alone, r"metrics at http://(\S+):") == "127.0.0.1"
    shared = start("dashboard", "shop:app", *open_to_all, "--metrics-host", "0.0.0.0")
    assert url_of(shared, r"metrics at http://(\S+):") == "0.0.0.0"


def test_a_password_lets_in_from_anywhere(shop: Path, start: Start) -> None:
    users = {"HEADRACE_DASHBOARD_AUTH": "ann:s3cret bob:x:viewer"}
    program = start("dashboard", "shop:app", "--host", "0.0.0.0", "--port", "0", **users)
    url = url_of(program).replace("0.0.0.0", "127.0.0.1")
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(url)
    sent = base64.b64encode(b"bob:x").decode()
    asking = urllib.request.Request(url, headers={"Authorization": f"Basic {sent}"})
    with urllib.request.urlopen(asking) as answer:
        assert b"viewer" in answer.read()
    program.send(signal.SIGINT)
    assert program.ended() == 0


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import headrace

    monkeypatch.setattr("headrace.web.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'headrace\[dashboard\]'"):
        headrace.dashboard(headrace.Headrace("memory://"))
