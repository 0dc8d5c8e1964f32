"""What people did, and who: kept in the store, and told to a log."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from typing import TYPE_CHECKING

import msgspec

from headrace.client.job import to_datetime
from headrace.core.visible import harmless
from headrace.errors import ConfigError

if TYPE_CHECKING:
    from headrace.store.contract import Store

log = logging.getLogger("headrace.audit")

MOST_KEPT = 1_000
_SPACE = "deeds"
_KEPT_SECONDS = 30 * 86_400.0
_MOST_TEXT = 500
# Whoever cuts a deed short wants to be gone.
_GRACE = 2.0
_numbers = count()
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


@dataclass(frozen=True, slots=True)
class DeedInfo:
    """Something that someone did with `app.admin.by(...)`, or tried to."""

    at: datetime
    """By the store's clock."""
    actor: str
    verb: str
    """The method of the admin: `pause`, `replay` and so on."""
    target: str
    """What it was done to: a queue, a group, a schedule, an id, or how many ids."""
    detail: str
    """What else was said, and what it came to."""
    error: str | None
    """Why it failed, or "cut short" if it was interrupted; None if it was done."""

    @classmethod
    def of(cls, record: _Record) -> DeedInfo:
        at = to_datetime(record.at_ms)
        error = record.error or None
        return cls(at, record.actor, record.verb, record.target, record.detail, error)


class _Record(msgspec.Struct, frozen=True):
    """A deed as the store keeps it."""

    at_ms: int
    actor: str
    verb: str
    target: str
    detail: str
    error: str


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Record).decode


class Deed:
    """A deed under way. What it comes to is added to its detail."""

    def __init__(self, verb: str, target: str, detail: str) -> None:
        self.verb = verb
        self.target = _line(target)
        self.detail = _line(detail)
        self.error = ""

    def came_to(self, what: str) -> None:
        self.detail = _line(": ".join(filter(None, (self.detail, what))))


Opened = Callable[[], Awaitable["Store"]]
Keep = Callable[[Deed, Opened], Awaitable[None]]


class Clerk:
    """Writes down what one actor does. A record that cannot be kept is told to the log alone: what
    was to be done is done all the same."""

    def __init__(self, actor: object) -> None:
        if not isinstance(actor, str) or not actor.strip():
            raise ConfigError(f"an actor is a text that says who acts, not {actor!r}")
        self._actor = _line(actor)

    @asynccontextmanager
    async def recording(self, deed: Deed, store: Opened) -> AsyncGenerator[None, None]:
        """Record the deed once it is done, has failed, or was cut short: a part of it may be done
        by then."""
        keep: Keep | None = self._keep
        try:
            yield
        except Exception as error:
            deed.error = _line(f"{type(error).__name__}: {error}")
            raise
        except BaseException as error:
            deed.error = "cut short"
            # What is thrown away half way cannot wait for anything.
            keep = None if isinstance(error, GeneratorExit) else self._keep_in_time
            raise
        finally:
            self._tell(deed)
            if keep is not None:
                await keep(deed, store)

    def _tell(self, deed: Deed) -> None:
        said = {"actor": self._actor, "verb": deed.verb, "target": deed.target}
        outcome = deed.error or "done"
        # Failures too: whoever acts is told by the error itself.
        log.info(
            "%s: %s %s (%s): %s", *said.values(), deed.detail, outcome,
            extra={**said, "detail": deed.detail, "outcome": outcome},
        )  # fmt: skip

    async def _keep_in_time(self, deed: Deed, store: Opened) -> None:
        """Whatever is cancelled meanwhile, and for no longer than a moment."""
        keeping = asyncio.create_task(self._keep(deed, store))
        _, late = await asyncio.wait({keeping}, timeout=_GRACE)
        if late:
            keeping.cancel()
            log.warning("what %s did could not be recorded in time", self._actor)

    async def _keep(self, deed: Deed, store: Opened) -> None:
        try:
            await _write(await store(), self._actor, deed)
        except Exception as error:
            log.warning("what %s did could not be recorded: %s", self._actor, error)


async def _write(store: Store, actor: str, deed: Deed) -> None:
    at_ms = await store.time_ms()
    data = _encode(_Record(at_ms, actor, deed.verb, deed.target, deed.detail, deed.error))
    # In order by name, also those of one process that share a millisecond.
    name = f"{at_ms:014d}-{next(_numbers):09d}-{secrets.token_hex(4)}"
    await store.note(_SPACE, name, data, ttl=_KEPT_SECONDS)
    for old in sorted(await store.notes(_SPACE))[:-MOST_KEPT]:
        await store.note(_SPACE, old, None)


async def read_deeds(store: Store, limit: int) -> list[DeedInfo]:
    """The latest first; what another version wrote and this one cannot read is left out."""
    found: list[DeedInfo] = []
    for _, data in sorted((await store.notes(_SPACE)).items(), reverse=True)[:MOST_KEPT]:
        try:
            found.append(DeedInfo.of(_decode(data)))
        except _UNREADABLE:
            continue
        if len(found) == limit:
            break
    return found


def _line(text: str) -> str:
    """One line of plainly visible text: names and errors may hold anything, and logs are read in
    terminals."""
    shown = harmless(" ".join(text[: 2 * _MOST_TEXT].split()))
    return shown if len(shown) <= _MOST_TEXT else shown[: _MOST_TEXT - 1] + "…"
