"""Who a connection logs in as, if that changes while it lives: tokens of a cloud, new passwords.

A provider is asked when a connection is opened, and for one that lives again and again: if the
answer has changed, it logs in anew between two requests.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any

import redis.exceptions as driver
from redis.credentials import CredentialProvider

if TYPE_CHECKING:
    from redis.asyncio.connection import AbstractConnection

log = logging.getLogger("headrace.store")

RENEW_EVERY = 30.0


class CredentialSource:
    """Asks the app's provider; shared by all connections of a store. A provider that says when its
    credentials change (`on_next`, as redis-py has it) is asked at once then."""

    def __init__(self, provider: Any) -> None:
        self._provider = provider
        self._is_async = _is_async(provider)
        self.version = 0
        """Grows with each change that the provider has announced."""
        if callable(on_next := getattr(provider, "on_next", None)):
            on_next(self._changed)

    async def get(self) -> tuple[str, ...]:
        """A password, or a user and a password. Raises `redis.exceptions.ConnectionError`."""
        try:
            if self._is_async:
                found = await self._provider.get_credentials_async()
            else:
                # It may ask a service, and must not stop the event loop.
                found = await asyncio.to_thread(self._provider.get_credentials)
        except Exception as error:
            raise driver.ConnectionError(
                f"the credential_provider failed: {type(error).__name__}: {error}"
            ) from error
        given = tuple(found) if isinstance(found, tuple | list) else ()
        if len(given) not in (1, 2) or not all(isinstance(each, str) for each in given):
            # Not what it gave: that may be a password.
            raise driver.ConnectionError(
                "the credential_provider must give (password,) or (user, password), as texts"
            )
        return given

    def login(self) -> ConnectionLogin:
        return ConnectionLogin(self)

    def _changed(self, _: Any) -> None:
        self.version += 1


class ConnectionLogin(CredentialProvider):
    """Logs one connection in, and again when the credentials have changed."""

    def __init__(self, source: CredentialSource) -> None:
        self._source = source
        self._used: tuple[str, ...] = ()
        self._version = 0
        self._due_at = 0.0

    async def get_credentials_async(self) -> Any:
        """For the driver, when the connection is opened."""
        self._used = await self._ask()
        return self._used

    @property
    def is_due(self) -> bool:
        """Whether it is time to ask if the credentials have changed."""
        return time.monotonic() >= self._due_at or self._version != self._source.version

    async def has_changed(self) -> bool:
        """Whether the connection is logged in with old credentials."""
        return self.is_due and await self._newest() != self._used

    async def renew(self, connection: AbstractConnection) -> None:
        """Log in anew if the credentials have changed; nothing else may be under way."""
        newest = await self._newest()
        if newest != self._used:
            await connection.send_command("AUTH", *newest, check_health=False)
            await connection.read_response()
            self._used = newest

    async def _newest(self) -> tuple[str, ...]:
        """If the provider fails, those that are used: the server ends the connection if it must."""
        try:
            return await self._ask()
        except driver.ConnectionError as error:
            text = str(error)
            log.warning("a connection keeps its credentials: %s", text, extra={"error": text})
            return self._used

    async def _ask(self) -> tuple[str, ...]:
        self._version = self._source.version
        self._due_at = time.monotonic() + RENEW_EVERY
        return await self._source.get()


def _is_async(provider: Any) -> bool:
    """Whether it has a `get_credentials_async` of its own: that of redis-py only calls the other,
    and logs a warning each time."""
    found = getattr(type(provider), "get_credentials_async", None)
    return found is not None and found is not CredentialProvider.get_credentials_async
