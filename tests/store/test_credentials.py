"""Users and passwords that a provider gives, and that change while connections live."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from redis.credentials import CredentialProvider

from headrace import ConfigError, Headrace, StoreUnavailable
from headrace.store.redis.connection import credentials
from headrace.store.redis.connection.endpoint import RedisEndpoint
from tests.servers import RedisServer


class Vault(CredentialProvider):
    """Gives what the server takes now; `renew` changes both while connections live."""

    def __init__(self, server: RedisServer) -> None:
        self._server = server
        self.number = 0
        self.broken = False
        self.tell: Callable[[Any], None] = lambda _: None
        self.renew()

    def renew(self) -> None:
        self.number += 1
        rights = ("on", "resetpass", f">{self._password}", "~*", "&*", "+@all")
        self._server.ask("ACL", "SETUSER", "token", *rights)

    @property
    def _password(self) -> str:
        return f"pass-{self.number}"

    def get_credentials(self) -> tuple[str, str]:
        if self.broken:
            raise OSError("no way to the token service")
        return "token", self._password


class AsyncVault(Vault):
    async def get_credentials_async(self) -> tuple[str, str]:
        return self.get_credentials()

    def get_credentials(self) -> tuple[str, str]:
        return "token", self._password


class StreamingVault(Vault):
    def on_next(self, callback: Callable[[Any], None]) -> None:
        self.tell = callback


@pytest.fixture
def vault(redis_server: RedisServer) -> Iterator[Vault]:
    yield Vault(redis_server)
    redis_server.ask("ACL", "DELUSER", "token")


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials, "RENEW_EVERY", 0.0)


def logins(server: RedisServer) -> int:
    stats: bytes = server.ask("INFO", "commandstats")
    found = [line for line in stats.splitlines() if line.startswith(b"cmdstat_auth:")]
    return int(found[0].partition(b"calls=")[2].partition(b",")[0]) if found else 0


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("kind", [Vault, AsyncVault])
async def test_a_live_connection_logs_in_anew_when_its_password_has_changed(
    redis_server: RedisServer, kind: type[Vault]
) -> None:
    vault = kind(redis_server)
    link = RedisEndpoint(redis_server.url, credential_provider=vault).link()
    who = await link.call("CLIENT", "ID")
    before = logins(redis_server)
    assert await link.call("CLIENT", "ID") == who
    assert logins(redis_server) == before
    vault.renew()
    assert await link.call("CLIENT", "ID") == who
    assert logins(redis_server) == before + 1
    await link.drop()


async def test_a_provider_that_tells_of_a_change_is_asked_at_once(
    redis_server: RedisServer,
) -> None:
    vault = StreamingVault(redis_server)
    link = RedisEndpoint(redis_server.url, credential_provider=vault).link()
    await link.call("PING")
    before = logins(redis_server)
    vault.renew()
    await link.call("PING")
    assert logins(redis_server) == before
    vault.tell(None)
    await link.call("PING")
    assert logins(redis_server) == before + 1
    await link.drop()


async def test_a_connection_that_the_server_logged_out_is_made_again(tmp_path: Path) -> None:
    with RedisServer(tmp_path, {"requirepass": "secret"}) as server:
        link = RedisEndpoint(server.url, credential_provider=FIXED).link()
        await link.call("RESET")
        assert await link.call("SET", "key", 1, key="key") == b"OK"
        await link.drop()


@pytest.mark.usefixtures("at_once")
async def test_jobs_run_while_passwords_change_and_connections_are_ended(
    redis_server: RedisServer, vault: Vault, namespace: str
) -> None:
    app = Headrace(redis_server.url, namespace=namespace, credential_provider=vault)

    @app.task
    async def double(number: int) -> int:
        return 2 * number

    async with app, app.worker():
        for number in range(6):
            job = await double.enqueue(number)
            assert await job.result(timeout=60) == 2 * number
            vault.renew()
            if number == 3:
                redis_server.ask("CLIENT", "KILL", "USER", "token")


@pytest.mark.usefixtures("at_once")
async def test_a_provider_that_fails_leaves_live_connections_as_they_are(
    redis_server: RedisServer, vault: Vault, caplog: pytest.LogCaptureFixture
) -> None:
    endpoint = RedisEndpoint(redis_server.url, credential_provider=vault)
    link = endpoint.link()
    await link.call("PING")
    vault.broken = True
    assert await link.call("PING") == b"PONG"
    assert "a connection keeps its credentials" in caplog.text
    await link.drop()
    said = "the credential_provider failed: OSError: no way to the token service"
    with pytest.raises(StoreUnavailable, match=said):
        await endpoint.link().call("PING")


async def test_an_answer_that_is_none_is_refused_and_not_shown(redis_server: RedisServer) -> None:
    class Odd:
        def get_credentials(self) -> Any:
            return "hunter2"

    link = RedisEndpoint(redis_server.url, credential_provider=Odd()).link()
    with pytest.raises(StoreUnavailable, match="must give") as caught:
        await link.call("PING")
    assert "hunter2" not in str(caught.value)


class Fixed:
    def get_credentials(self) -> tuple[str, str]:
        return "default", "secret"


FIXED = Fixed()


def test_what_cannot_be_a_provider_is_refused_when_declared() -> None:
    odd: Any = "token"
    with pytest.raises(ConfigError, match=r"must have a method get_credentials\(\)"):
        Headrace("redis://h", credential_provider=odd)
    with pytest.raises(ConfigError, match="credential_provider is for Redis"):
        Headrace("memory://", credential_provider=FIXED)
    for url in ("redis://me:pass@h", "redis://h/0?password=pass"):
        with pytest.raises(ConfigError, match="leave out one or the other") as caught:
            Headrace(url, credential_provider=FIXED)
        assert "pass@" not in str(caught.value)


def test_credential_provider_has_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_CREDENTIAL_PROVIDER", f"{__name__}:FIXED")
    assert Headrace("redis://h").credential_provider is FIXED
