"""One connection to the server.

Headrace talks to Redis below the driver's client: batches are packed by hiredis in one go, replies
are taken as they come, and nothing is ever sent twice behind our back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import hiredis
import redis.exceptions as driver

from headrace.errors import StoreError, StoreRefused, StoreUnavailable
from headrace.store.redis.connection.errors import NoScript, Void, translated
from headrace.store.redis.connection.requests import Abandoned, Numbered, RequestSession
from headrace.store.redis.connection.url_options import SOCKET_TIMEOUT
from headrace.store.values import IdempotencyKey

if TYPE_CHECKING:
    from redis.asyncio.connection import AbstractConnection

    from headrace.store.redis.connection.confirmation import Confirmation
    from headrace.store.redis.connection.credentials import ConnectionLogin, CredentialSource
    from headrace.store.redis.script import Script

Argument = str | bytes | int | float
Connect = Callable[[], "AbstractConnection"]

# For the driver; the time limits here are our own.
_FOREVER = float("inf")


class LinkSettings(NamedTuple):
    """What all links to a server have in common."""

    timeout: float = SOCKET_TIMEOUT
    """Seconds within which a request is answered."""
    credentials: CredentialSource | None = None
    """Who connections log in as, if the URL does not say it."""


DEFAULT_SETTINGS = LinkSettings()


class Link:
    """A connection with one request under way at a time; made when first used, and again after an
    error. With `repeats`, for requests that may be carried out twice, one that meets a connection
    which broke while it was idle is made again on a new one. With a `confirmation`, it is for
    scripts alone, and their replies wait for it."""

    def __init__(
        self,
        connect: Connect,
        *,
        repeats: bool = False,
        abandoned: Abandoned | None = None,
        confirmation: Confirmation | None = None,
        settings: LinkSettings = DEFAULT_SETTINGS,
    ) -> None:
        self._connect = connect
        self._settings = settings
        self.timeout = settings.timeout + (confirmation.longest if confirmation else 0.0)
        """Seconds within which a request is answered, unless it blocks."""
        self._repeats = repeats
        self._abandoned = abandoned or Abandoned()
        self._confirmation = confirmation
        self._connection: AbstractConnection | None = None
        self._login: ConnectionLogin | None = None
        self._session = RequestSession()
        self._lock = asyncio.Lock()
        self.client_id: int | None = None

    async def run(
        self,
        script: Script,
        keys: Sequence[str],
        arguments: Sequence[Argument],
        request: IdempotencyKey | None = None,
    ) -> Any:
        """Run a script; one that the server does not know is sent along. Its changes are applied
        once for each `request`; without one, nothing protects against a repeat."""
        keys = self._keys_of_script(keys)
        if not script.changes:
            return await self._evaluate(script, keys, arguments, None)
        asked = request or IdempotencyKey()
        asked.scope = scope = keys[script.sessions_at]
        void = self._abandoned.of(scope)
        try:
            reply = await self._evaluate(script, keys, arguments, Numbered(asked, void))
        except Void:
            asked.id = ""
            raise
        except StoreError as error:
            if request is None and isinstance(error, StoreUnavailable) and error.sent:
                self._abandoned.add(asked)
            raise
        except BaseException:
            if request is None:
                self._abandoned.add(asked)
            raise
        if void:
            self._abandoned.voided(scope, void)
        return reply

    def _keys_of_script(self, keys: Sequence[str]) -> Sequence[str]:
        """The keys that are declared to the server."""
        return keys

    async def _evaluate(
        self,
        script: Script,
        keys: Sequence[str],
        arguments: Sequence[Argument],
        request: Numbered | None,
    ) -> Any:
        rest = (len(keys), *keys, *arguments)
        try:
            return await self.call("EVALSHA", script.sha, *rest, key=keys[0], request=request)
        except NoScript:
            return await self.call("EVAL", script.body, *rest, key=keys[0], request=request)

    async def call(
        self,
        *command: Argument,
        key: str | None = None,
        timeout: float | None = None,
        request: Numbered | None = None,
    ) -> Any:
        """The server's reply, or a `StoreError`. If cancelled, the connection is dropped with the
        reply that nobody waits for. `key` is the one that the command is about: in a cluster it
        says which node to ask. `request` is what it is known by, as its last argument."""
        timeout = timeout or self.timeout
        async with self._lock:
            if request is None:
                return await self._exchange_twice(command, timeout)
            try:
                # Only when it is sent: the numbers of a session are applied in order.
                return await self._exchange_twice(
                    (*command, request.argument(self._session)), timeout
                )
            except BaseException:
                self._session = RequestSession()
                raise

    async def _exchange_twice(self, command: Sequence[Argument], timeout: float) -> Any:
        reused = self._connection is not None
        try:
            return await self._exchange(command, timeout)
        except StoreUnavailable as error:
            # One that was logged out has done nothing; a new one asks for new credentials.
            logged_out = self._login is not None and isinstance(error, StoreRefused) and error.login
            if not reused or not (logged_out or (self._repeats and error.sent)):
                raise
        return await self._exchange(command, timeout)

    @property
    def busy(self) -> bool:
        """Whether a request is under way."""
        return self._lock.locked()

    async def identify(self) -> None:
        """Learn `client_id`, by which another link can end this one's blocking call."""
        if self._connection is None or not self._connection.is_connected:
            self.client_id = None
        if self.client_id is None:
            self.client_id = await self.call("CLIENT", "ID")

    async def send(self, *command: Argument) -> None:
        """Send a command whose answer comes as a message: see `receive`."""
        try:
            async with asyncio.timeout(self.timeout):
                connection = self._connection
                if connection is None or not connection.is_connected:
                    connection = await self._open()
                await _write(connection, command)
        except (driver.RedisError, OSError) as error:
            await self.drop()
            raise translated(error, sent=True) from None

    async def receive(self) -> Any:
        """The next message on a link that subscribed, however long it takes."""
        if self._connection is None:
            raise StoreUnavailable("Redis: the connection was closed")
        try:
            return await self._connection.read_response(timeout=_FOREVER)
        except (driver.RedisError, OSError) as error:
            await self.drop()
            raise translated(error, sent=True) from None

    async def drop(self) -> None:
        """Close the connection; the next call makes a new one."""
        connection, self._connection, self.client_id = self._connection, None, None
        if connection is not None:
            await connection.disconnect(nowait=True)

    async def _exchange(self, command: Sequence[Argument], timeout: float) -> Any:
        sent = False
        try:
            async with asyncio.timeout(timeout):
                connection = self._connection
                if connection is None or not connection.is_connected:
                    connection = await self._open()
                elif self._login is not None and self._login.is_due:
                    connection = await self._renewed(connection, self._login)
                sent = True
                if self._confirmation is not None:
                    return await self._confirmation.exchange(connection, command)
                await _write(connection, command)
                return await connection.read_response(timeout=_FOREVER)
        except TimeoutError:
            await self.drop()
            raise StoreUnavailable(
                f"Redis did not answer within {timeout:g} s", sent=sent, silent=True
            ) from None
        except driver.ResponseError as error:
            fault = translated(error, sent=sent, command=command)
            if isinstance(fault, StoreUnavailable):
                # Such as READONLY: the next connection may find the right server.
                await self.drop()
            raise fault from None
        except (driver.RedisError, OSError) as error:
            await self.drop()
            raise translated(error, sent=sent) from None
        except BaseException:
            await self.drop()
            raise

    async def _renewed(
        self, connection: AbstractConnection, login: ConnectionLogin
    ) -> AbstractConnection:
        """The connection, logged in anew if its credentials have changed; another one if that
        fails."""
        try:
            await login.renew(connection)
        except (driver.RedisError, OSError):
            return await self._open()
        return connection

    async def has_old_credentials(self) -> bool:
        """Whether the connection should be made again, on a link that subscribed: such a one cannot
        log in anew."""
        return self._login is not None and await self._login.has_changed()

    async def _open(self) -> AbstractConnection:
        await self.drop()
        connection = self._connect()
        if self._settings.credentials is not None:
            self._login = self._settings.credentials.login()
            connection.credential_provider = self._login
        try:
            await connection.connect()  # type: ignore[no-untyped-call]
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        self._connection = connection
        return connection


async def _write(connection: AbstractConnection, command: Sequence[Argument]) -> None:
    packed = hiredis.pack_command(tuple(command))  # type: ignore[arg-type]
    await connection.send_packed_command(packed, check_health=False)
