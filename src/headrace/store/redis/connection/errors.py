"""What the driver's errors mean for Headrace."""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator, Sequence

import redis.exceptions as driver

from headrace.errors import (
    StoreError,
    StoreFull,
    StoreMismatch,
    StoreRefused,
    StoreUnavailable,
)
from headrace.store.redis.connection.tls import NoTLS, WantsTLS
from headrace.store.redis.keys import namespace_of


class NoGroup(StoreError):
    """The stream or its consumer group is gone: FLUSHALL, or someone deleted it."""


class NoScript(StoreError):
    """The server has forgotten its scripts: SCRIPT FLUSH, a restart or a failover."""


class Void(StoreUnavailable):
    """The server has applied newer requests of the same session, so it is not known whether it has
    applied this one. It may be made again, as a new request, after a check of what was done."""

    def __init__(self) -> None:
        super().__init__("Redis: a request came too late to be recognised", sent=True)


class Moved(StoreUnavailable):
    """Nothing was done: another node of the cluster has the slot. `host` is empty if it is the host
    of the node that was asked."""

    def __init__(self, slot: int, host: str, port: int) -> None:
        super().__init__(f"Redis: slot {slot} of the cluster is now at {host}:{port}")
        self.slot, self.host, self.port = slot, host, port


# Codes of error replies for temporary conditions, sent before anything was done.
_PASSING = {
    "ASK": "the cluster is moving a slot",
    "BUSY": "the server is busy with a script",
    "CLUSTERDOWN": "the cluster is not complete",
    "LOADING": "the server is loading its data",
    "MASTERDOWN": "the server has lost its master",
    "MISCONF": "the server cannot persist and refuses writes: look at its disk and log",
    "NOREPLICAS": "the server has too few replicas to accept writes",
    "READONLY": "the server is a replica now",
    "TRYAGAIN": "the cluster is moving a slot",
    "UNBLOCKED": "the server is not the master any more",
    "UNKILLABLE": "the server is busy with a script",
}


_NOBODY = re.compile(r"Error \d+ connecting to (\S+?)\.(?: |$)")


def translated(error: Exception, *, sent: bool, command: Sequence[object] = ()) -> StoreError:
    """The driver's error as one of Headrace. `sent` says that the request was sent, so that after a
    broken connection it may have been applied; `command` is what was asked."""
    if isinstance(error, driver.OutOfMemoryError):
        return StoreFull("Redis is at its maxmemory: free some or raise it")
    if isinstance(error, driver.BusyLoadingError):
        return _not_ready("LOADING")
    if isinstance(error, driver.ReadOnlyError):
        return _not_ready("READONLY")
    if isinstance(error, driver.NoScriptError):
        return NoScript(str(error))
    if isinstance(error, driver.MovedError):
        return Moved(error.slot_id, error.host, error.port)
    if isinstance(error, driver.NoPermissionError):
        return StoreRefused(
            f"Redis does not allow this user what Headrace needs: {_denied(error, command)}"
        )
    if isinstance(error, driver.AuthenticationError):
        return StoreRefused(f"Redis refuses the user or password: {error}", login=True)
    if isinstance(error, driver.ResponseError):
        return _from_reply(str(error), getattr(error, "status_code", None) or "")
    return _unreachable(error, sent)


def _not_ready(code: str) -> StoreUnavailable:
    return StoreUnavailable(f"Redis: {_PASSING[code]}", answered=True)


def _denied(error: Exception, command: Sequence[object]) -> str:
    """What the server says, and the namespace, if it is about keys: it does not say which."""
    text = str(error)
    if re.search(r"\b(keys?|channels?)\b", text) is None:
        return text
    found = next(filter(None, (namespace_of(it) for it in command)), None)
    if found is None:
        return text
    return f"{text} (namespace {found!r}: its ACL must allow the keys and channels of that)"


def _unreachable(error: Exception, sent: bool) -> StoreError:
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            why = cause.verify_message or str(cause)
            return StoreRefused(
                f"the certificate of the Redis server is not trusted: {why}; name the authority "
                "that signed it with ssl_ca_certs=FILE in the URL",
                answered=False,
            )
        if isinstance(cause, NoTLS):
            return StoreRefused(
                f"what listens at {cause} speaks no TLS: write redis:// in the URL, or "
                "sentinel_tls=no if it is a sentinel, or name the port for TLS",
                answered=False,
            )
        if isinstance(cause, WantsTLS):
            return StoreRefused(
                f"what listens at {cause} speaks TLS alone: write rediss:// in the URL, or "
                "sentinel_tls=yes if it is a sentinel, or name the port without TLS",
                answered=False,
            )
        if isinstance(cause, ConnectionRefusedError) and (at := _NOBODY.match(str(error))):
            return StoreUnavailable(f"Redis cannot be reached: nothing listens at {at[1]}")
    return StoreUnavailable(f"Redis cannot be reached: {error}", sent=sent)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _from_reply(text: str, status: str) -> StoreError:
    code = status or text.split(" ", 1)[0]
    if code == "NOGROUP" or (code == "UNBLOCKED" and "stream key no longer exists" in text):
        return NoGroup(text)
    if code in _PASSING:
        return _not_ready(code)
    if code == "OOM":
        return StoreFull("Redis is at its maxmemory: free some or raise it")
    if code == "NOSCRIPT":
        return NoScript(text)
    if code == "VOID":
        return Void()
    if code == "WRONGTYPE":
        return StoreMismatch(
            "a Redis key that Headrace uses holds something else; delete it or use another "
            f"namespace ({text})"
        )
    return StoreError(f"Redis: {text}")
