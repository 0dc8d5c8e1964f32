"""By which names metrics and probes may be asked, and how long whoever asks may take."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from urllib.parse import urlsplit

import pytest

from headrace.errors import ConfigError
from headrace.exposition import server
from headrace.exposition.server import AllowedHosts, ExpositionServer, HttpResponse
from tests.cli.conftest import Start, imports_are_forgotten, shop, start
from tests.exposition.scraping import got

__all__ = ["imports_are_forgotten", "shop", "start"]

Serve = Callable[..., str]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Where it is served."""
    opened: list[ExpositionServer] = []

    def serve(*allowed: str) -> str:
        pages = {"/metrics": lambda _: HttpResponse(b"all is well")}
        opened.append(ExpositionServer("127.0.0.1", 0, pages, allowed))
        opened[-1].start()
        return opened[-1].url

    yield serve
    for each in opened:
        each.close()


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1:9100", "10.1.2.3", "[::1]:9100", "[fe80::1%25eth0]:9100", "localhost:9100",
     "app.localhost", "worker-1:9100", "WORKER-1", socket.gethostname()],
)  # fmt: skip
def test_addresses_and_names_that_are_no_sites_are_answered(serve: Serve, host: str) -> None:
    assert got(f"{serve()}/metrics", Host=host)[:2] == (200, b"all is well")


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:9100", "127.0.0.1.evil.example", "localhost.evil.example",
     "evil.example.", "xn--e1afmkfd.example", "evil.example:x"],
)  # fmt: skip
def test_a_name_that_a_site_has_pointed_here_is_refused(serve: Serve, host: str) -> None:
    status, body, _ = got(f"{serve()}/metrics", Host=host)
    assert status == 403
    assert b"--metrics-allow-host" in body
    assert got(f"{serve('shop.example')}/metrics", Host=host)[0] == 403


def test_names_are_allowed_each_or_all_below_one_or_every_one(serve: Serve) -> None:
    url = serve("jobs.shop.example", "*.svc.cluster.local")
    for host, status in (
        ("jobs.shop.example:9100", 200),
        ("JOBS.shop.example.", 200),
        ("worker.shop.svc.cluster.local", 200),
        ("shop.example", 403),
        ("x.jobs.shop.example", 403),
        ("evilsvc.cluster.local", 403),
    ):
        assert got(f"{url}/metrics", Host=host)[0] == status, host
    assert got(f"{serve('*')}/metrics", Host="evil.example")[0] == 200


@pytest.mark.parametrize("name", ["", "http://shop.example", "shop.*", "shop example", "*.*.x"])
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="no name of a host"):
        AllowedHosts("127.0.0.1", [name])


def test_a_worker_is_given_the_names_by_which_it_may_be_asked(start: Start) -> None:
    program = start(
        "worker", "shop:app", "--metrics-port", "0", HEADRACE_METRICS_ALLOW_HOST="shop.example"
    )
    program.says("metrics are at ")
    found = re.search(r"metrics are at (http://\S+)/metrics", program.output)
    assert found
    assert got(f"{found[1]}/healthz", Host="shop.example")[0] == 200
    assert got(f"{found[1]}/healthz", Host="evil.example")[0] == 403
    refused = start("worker", "shop:app", "--metrics-allow-host", "shop.example")
    assert refused.ended() == 2
    assert "--metrics-allow-host is of no use without --metrics-port" in refused.output


def dripped(url: str) -> bytes:
    """What is answered to someone whose request never ends, a byte now and then."""
    place = urlsplit(url)
    with socket.create_connection((place.hostname or "", place.port or 0), timeout=60) as caller:
        caller.sendall(b"GET /metrics HTTP/1.1\r\n")
        caller.settimeout(0.02)
        for _ in range(3_000):
            with suppress(TimeoutError, ConnectionError):
                return caller.recv(100)
            try:
                caller.sendall(b"x")
            except ConnectionError:
                return b""
    raise AssertionError("it was kept open for a minute")


def test_a_request_that_does_not_come_to_its_end_is_closed(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_TIMEOUT", 0.2)
    assert dripped(serve()) == b""


def test_there_is_a_bound_on_those_who_ask_at_once(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_MOST_AT_ONCE", 2)
    url = serve()
    place = urlsplit(url)
    where = (place.hostname or "", place.port or 0)
    idle = [socket.create_connection(where, timeout=60) for _ in range(2)]
    with socket.create_connection(where, timeout=60) as third:
        assert third.recv(100) == b""
    for each in idle:
        each.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        assert each.recv(100).startswith(b"HTTP/1.0 200")
        each.close()
