"""`headrace dashboard`: where it listens, whom it lets in, how it ends."""

from __future__ import annotations

import base64
import http.cookiejar
import json
import re
import signal
import socket
import ssl
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import pytest
from click.testing import CliRunner

from headrace.cli import main
from headrace.errors import ConfigError
from headrace.web.auth.secret import own_host
from tests.cli.conftest import Start
from tests.cli.programs import LONG, Program
from tests.servers import RedisServer


def refused(*arguments: str, env: dict[str, str] | None = None) -> str:
    """What is said instead of serving."""
    result = CliRunner().invoke(main, ["dashboard", "shop:app", *arguments], env=env)
    assert result.exit_code == 2
    (line,) = result.output.splitlines()
    return line


def browser() -> urllib.request.OpenerDirector:
    """Keeps cookies."""
    return urllib.request.build_opener(urllib.request.HTTPCookieProcessor())


def url_of(program: Program, pattern: str = r"dashboard: (https?://\S+)") -> str:
    program.says("Ctrl-C")
    found = re.search(pattern, program.output)
    assert found, program.output
    return found[1]


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "shop.example"])
def test_others_than_this_machine_need_a_password(host: str) -> None:
    assert "--auth name:password" in refused("--host", host)


@pytest.mark.usefixtures("shop")
def test_what_is_wrong_is_reported_in_a_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert "address already in use; choose others" in refused("--port", port)
        metrics = refused("--port", "0", "--metrics-port", port)
        assert "--metrics-port" in metrics
    assert "without --metrics-port" in refused("--metrics-host", "0.0.0.0")
    assert "name:password" in refused("--auth", "ann")
    assert "the password of user 'ann' has fewer than 8" in refused("--auth", "ann:s3cret")
    assert "not both" in refused("--auth", "ann:s3cret42", "--insecure")
    assert "not both" in refused("--insecure", env={"HEADRACE_DASHBOARD_AUTH": "ann:s3cret42"})
    assert "16 characters" in refused("--token", "short")
    assert "no use with --auth" in refused("--token", "t" * 20, "--auth", "ann:s3cret42")
    assert "--auth name:password" in refused("--proxy", "10.0.0.5")
    assert "takes an address" in refused("--proxy", "front.example", "--insecure")
    assert "https://shop.example" in refused("--origin", "shop.example", "--insecure")
    assert "without --ssl-certfile" in refused("--ssl-keyfile", "key.pem")
    assert "none.pem (No such file" in refused("--ssl-certfile", "none.pem")
    assert "PEM files" in refused("--ssl-certfile", "shop.py")


def test_it_serves_until_it_is_asked_to_end_also_while_a_page_is_followed(
    shop: Path, start: Start
) -> None:
    program = start("dashboard", "shop:app", "--port", "0", "--metrics-port", "0")
    url = url_of(program)
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(url.partition("?")[0])
    person = browser()
    with person.open(url) as answer:
        assert b"<h1>Overview</h1>" in answer.read()
        assert "token" not in answer.url
    metrics = url_of(program, r"metrics at (http://\S+)")
    with urllib.request.urlopen(f"{metrics}/metrics") as answer:
        assert b"headrace_store_up 1.0" in answer.read()
    with person.open(f"{url.partition('?')[0]}live?view=/") as stream:
        assert stream.readline() == b"retry: 500\n"
        program.send(signal.SIGTERM)
        assert stream.read(), "the stream ends"
    assert program.ended() == 0
    assert "Traceback" not in program.output


def test_it_waits_for_its_store_for_as_long_as_it_may(
    start: Start, redis_server: RedisServer
) -> None:
    redis_server.kill()
    given_up = start(
        *("dashboard", "shop:app", "--port", "0", "--wait-for-store", "0.3"),
        HEADRACE_URL=redis_server.url,
    )
    assert given_up.ended() == 2
    assert "the dashboard waited 0.3 s for its store: Redis cannot be" in given_up.output
    patient = {"HEADRACE_URL": redis_server.url, "HEADRACE_WAIT_FOR_STORE": "600"}
    program = start("dashboard", "shop:app", "--port", "0", **patient)
    program.says("the dashboard waits for its store: Redis cannot be reached")
    redis_server.start()
    with browser().open(url_of(program), timeout=LONG) as page:
        assert b"shop" in page.read()
    program.send(signal.SIGTERM)
    assert program.ended() == 0


def test_actions_are_logged_in_the_form_that_was_asked_for(shop: Path, start: Start) -> None:
    program = start("dashboard", "shop:app", "--port", "0", "--log-format", "json")
    url, _, token = url_of(program).partition("?")
    person = browser()
    with person.open(f"{url}queue?name=mail&{token}") as answer:
        found = re.search(r'name="csrf_token" value="(\w+)"', answer.read().decode())
    assert found
    sent = urllib.parse.urlencode({"csrf_token": found[1], "queue": "mail"}).encode()
    form = urllib.request.Request(f"{url}actions/pause", sent, {"Origin": url.rstrip("/")})
    person.open(form).close()
    program.says('"verb": "pause"')
    (line,) = [each for each in program.output.splitlines() if "headrace.actions" in each]
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
    users = {"HEADRACE_DASHBOARD_AUTH": "ann:s3cret42 bob:look:only:viewer"}
    program = start("dashboard", "shop:app", "--host", "0.0.0.0", "--port", "0", **users)
    url = url_of(program).replace("0.0.0.0", "127.0.0.1")
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(url)
    sent = base64.b64encode(b"bob:look:only").decode()
    asking = urllib.request.Request(url, headers={"Authorization": f"Basic {sent}"})
    with urllib.request.urlopen(asking) as answer:
        assert b"viewer" in answer.read()
    program.send(signal.SIGINT)
    assert program.ended() == 0


def test_the_token_is_chosen_by_a_variable(shop: Path, start: Start) -> None:
    chosen = {"HEADRACE_DASHBOARD_TOKEN": "a token / of one's own"}
    program = start("dashboard", "shop:app", "--port", "0", **chosen)
    url = url_of(program)
    assert url.endswith("/?token=a%20token%20%2F%20of%20one%27s%20own")
    with browser().open(url) as answer:
        assert b"<h1>Overview</h1>" in answer.read()
    program.says(f"http://{own_host(chosen['HEADRACE_DASHBOARD_TOKEN'])}:")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with cert.pem, key.pem, and the same key under the password "s3cret"."""
    folder = tmp_path_factory.mktemp("certificate")
    for command in (
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost "
        "-addext subjectAltName=IP:127.0.0.1 -keyout key.pem -out cert.pem",
        "openssl rsa -aes256 -passout pass:s3cret -in key.pem -out locked.pem",
    ):
        subprocess.run(command.split(), cwd=folder, check=True, capture_output=True)
    return folder


@pytest.mark.parametrize("key", ["key.pem", "locked.pem"])
def test_it_is_served_by_https_and_its_cookies_are_for_https_alone(
    shop: Path, start: Start, certificate: Path, key: str
) -> None:
    files = ("--ssl-certfile", f"{certificate}/cert.pem", "--ssl-keyfile", f"{certificate}/{key}")
    secret = {"HEADRACE_DASHBOARD_SSL_KEYFILE_PASSWORD": "s3cret"} if key == "locked.pem" else {}
    program = start("dashboard", "shop:app", "--port", "0", *files, **secret)
    url = url_of(program)
    assert url.startswith("https://127.0.0.1:")
    jar = http.cookiejar.CookieJar()
    person = urllib.request.build_opener(
        urllib.request.HTTPCookieProcessor(jar),
        urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=files[1])),
    )
    with person.open(url) as answer:
        assert b"<h1>Overview</h1>" in answer.read()
    assert {(cookie.name[:15], cookie.secure) for cookie in jar} == {("__Host-headrace", True)}


@pytest.mark.usefixtures("shop")
def test_a_key_whose_password_is_missing_or_wrong_is_reported(certificate: Path) -> None:
    files = ("--ssl-certfile", f"{certificate}/cert.pem", "--ssl-keyfile")
    assert "KEYFILE_PASSWORD" in refused(*files, f"{certificate}/locked.pem")
    wrong = {"HEADRACE_DASHBOARD_SSL_KEYFILE_PASSWORD": "guess"}
    assert "locked.pem (" in refused(*files, f"{certificate}/locked.pem", env=wrong)


@pytest.mark.parametrize(
    ("arguments", "warned"),
    [
        (("--host", "0.0.0.0", "--auth", "ann:s3cret42"), "passwords and sessions go over plain"),
        (("--host", "0.0.0.0", "--insecure"), "all pages and actions go over plain http"),
        (("--host", "0.0.0.0", "--insecure", "--proxy", "10.0.0.5"), ""),
        (("--auth", "ann:s3cret42"), ""),
    ],
)
def test_what_goes_over_plain_http_beyond_this_machine_is_warned_of(
    shop: Path, start: Start, arguments: tuple[str, ...], warned: str
) -> None:
    program = start("dashboard", "shop:app", "--port", "0", *arguments)
    url_of(program)
    assert ("plain http" in program.output) is bool(warned)
    assert warned in program.output


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import headrace

    monkeypatch.setattr("headrace.web.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'headrace\[dashboard\]'"):
        headrace.dashboard(headrace.Headrace("memory://"))


def test_a_proxy_that_is_named_says_who_asks(shop: Path, start: Start) -> None:
    options = ("--insecure", "--proxy", "127.0.0.1", "--log-format", "json")
    program = start("dashboard", "shop:app", "--port", "0", *options)
    url = url_of(program)
    person = browser()
    forwarded = {"X-Forwarded-For": "203.0.113.9", "Origin": url.rstrip("/")}
    with person.open(f"{url}queue?name=mail") as answer:
        found = re.search(r'name="csrf_token" value="(\w+)"', answer.read().decode())
    assert found
    sent = urllib.parse.urlencode({"csrf_token": found[1], "queue": "mail"}).encode()
    person.open(urllib.request.Request(f"{url}actions/pause", sent, forwarded)).close()
    program.says('"address": "203.0.113.9"')
