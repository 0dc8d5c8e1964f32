"""The host name that a dashboard for this machine's user has for itself."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headrace.cli.processes import local_address
from headrace.cli.processes.local_address import listen_beside, resolves_local_names
from headrace.web.auth.secret import own_host

TOKEN = "a token of this machine's user"
PLAIN = "http://127.0.0.1:8370/?token=a%20token"


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as here:
        yield here


def test_nobody_else_can_listen_where_the_own_name_leads_to(listening: socket.socket) -> None:
    beside = listen_beside(listening)
    assert beside.is_ours
    if beside.socket is None:
        # No IPv6 here: there is no other place.
        return
    with beside.socket:
        assert beside.socket.getsockname()[:2] == ("::1", listening.getsockname()[1])
        assert listen_beside(listening) == (None, False), "someone listens there"
        back = listen_beside(beside.socket)
        assert back == (None, False)


def test_an_address_of_this_machine_that_no_name_leads_to_has_no_own_name() -> None:
    with socket.create_server(("127.0.0.7", 0)) as here:
        assert listen_beside(here) == (None, False)


Resolver = Callable[..., list[Any]]


def answering(*addresses: str) -> Resolver:
    def resolver(name: str, port: object) -> list[Any]:
        assert name.endswith(".localhost")
        asked.append(name)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, 0)) for each in addresses]

    return resolver


asked: list[str] = []


def unknown(name: str, port: object) -> list[Any]:
    raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")


given_up = threading.Event()


def silent(name: str, port: object) -> list[Any]:
    given_up.wait(60)
    return []


@pytest.mark.parametrize(
    ("resolver", "resolves"),
    [
        (answering("127.0.0.1"), True),
        (answering("::1", "127.0.0.1"), True),
        (answering("127.0.0.1", "192.0.2.7"), False),
        (answering(), False),
        (unknown, False),
        (silent, False),
    ],
    ids=["this machine", "both", "elsewhere too", "nothing", "unknown", "silent"],
)
def test_the_resolver_of_this_machine_is_asked(
    monkeypatch: pytest.MonkeyPatch, resolver: Resolver, resolves: bool
) -> None:
    monkeypatch.setattr(local_address, "_RESOLVER_SECONDS", 0.2)
    monkeypatch.setattr(socket, "getaddrinfo", resolver)
    assert resolves_local_names() is resolves
    address = local_address.local_address(PLAIN, TOKEN, own_name=True)
    own = f"http://{own_host(TOKEN)}:8370/?token=a%20token"
    assert address.url == (own if resolves else PLAIN)
    assert (own in address.note) is not resolves, "most browsers find it all the same"
    assert ("15 minutes" in address.note) is not resolves
    assert own_host(TOKEN) not in asked, "it may be sent to a name server"
    given_up.set()


def test_an_address_that_others_answer_at_is_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", answering("127.0.0.1"))
    address = local_address.local_address(PLAIN, TOKEN, own_name=False)
    assert address.url == PLAIN
    assert "15 minutes" in address.note
    assert ".localhost" not in address.note
