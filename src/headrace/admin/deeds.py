"""What people did, and who: kept in the store, and told to a log."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.core import limits
from headrace.core.clock import to_datetime
from headrace.core.masking import NOTHING_HIDDEN, Masks, hidden_in
from headrace.core.visible import harmless
from headrace.errors import ConfigError

if TYPE_CHECKING:
    from headrace.admin.redaction import Redaction
    from headrace.store.contract import Store

log = logging.getLogger("headrace.audit")

_SPACE = "deeds"
_MOST_TEXT = 500
_MOST_CHANGES = 20
_MOST_VALUE = 120
_PAGE = 500
# Whoever cuts a deed short wants to be gone.
_GRACE = 2.0
_numbers = count()
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


@dataclass(frozen=True, slots=True)
class DeedInfo:
    """Something that someone did with `app.admin.by(...)`, or tried to."""

    at: datetime
    """When it began, by the store's clock."""
    actor: str
    verb: str
    """The method of the admin: `pause`, `replay` and so on."""
    target: str
    """What it was done to: a queue, a group, a schedule, an id, or how many ids."""
    detail: str
    """What else was said, and what it came to."""
    error: str | None
    """Why it failed, or "cut short" if it was interrupted; None if it was done."""
    address: str = ""
    """Where the actor was, if known: the address that a request to the dashboard came from."""
    changes: tuple[str, ...] = ()
    """Values that were changed, such as `to: 'ann' → 'bob'`."""
    finished: bool = True
    """False while it is under way; and for ever if the process died meanwhile, in which case none,
    some or all of it was done."""
    id: str = ""
    """Names the record: `deeds(before=…)` goes on from it."""
    redacted: bool = False
    """Whether `changes` went through a redact hook."""

    @classmethod
    def of(cls, id: str, record: _Record) -> DeedInfo:
        return cls(
            to_datetime(record.at_ms),
            *(record.actor, record.verb, record.target, record.detail, record.error or None),
            *(record.address, tuple(record.changes), record.finished, id, record.redacted),
        )


class _Record(msgspec.Struct, frozen=True):
    """A deed as the store keeps it."""

    at_ms: int
    actor: str
    verb: str
    target: str
    detail: str
    error: str
    address: str = ""
    changes: list[str] = []
    finished: bool = True
    redacted: bool = False


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Record).decode


class Deed:
    """A deed under way. What it comes to is added to its detail."""

    def __init__(self, verb: str, target: str, detail: str) -> None:
        self.verb = verb
        self.target = _line(target)
        self.detail = _line(detail)
        self.error = ""
        self.changes: list[str] = []
        self.redacted = False
        self.at_ms = 0
        self.id = ""

    def came_to(self, what: str) -> None:
        self.detail = _line(": ".join(filter(None, (self.detail, what))))

    def edited(
        self, task: str, old: Mapping[str, Any], new: Mapping[str, Any], redaction: Redaction
    ) -> None:
        """Note which arguments of a job become others, as far as they may be seen."""
        self.redacted = redaction.active
        names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
        # A hook may change what it is given.
        shown = [redaction.value(task, deepcopy(dict(values))) for values in (old, new)]
        # What was hidden in one argument may have come into another.
        masks = Masks([*hidden_in(old, shown[0]), *hidden_in(new, shown[1])])
        for name in names:
            before, after = (
                each.get(name) if isinstance(each, Mapping) else each for each in shown
            )
            self.changed(name, before, after, masks)

    def changed(self, what: str, old: object, new: object, masks: Masks = NOTHING_HIDDEN) -> None:
        """Note that a value became another one."""
        if len(self.changes) < _MOST_CHANGES:
            values = [masks.text(_value(each)) for each in (old, new)]
            self.changes.append(_line(f"{what}: {' → '.join(values)}"))
        elif len(self.changes) == _MOST_CHANGES:
            self.changes.append("…")


@dataclass(frozen=True, slots=True)
class Journal:
    """Where deeds are recorded, and for how long."""

    store: Callable[[], Awaitable[Store]]
    keep: float


class Clerk:
    """Writes down what one actor does: before it is done, and again with what it came to. A record
    that cannot be kept is told to the log alone: what was to be done is done all the same."""

    def __init__(self, actor: object, address: str = "") -> None:
        if not isinstance(actor, str) or not actor.strip():
            raise ConfigError(f"an actor is a text that says who acts, not {actor!r}")
        self._actor = _line(actor)
        self._address = _line(address)

    @asynccontextmanager
    async def recording(self, deed: Deed, journal: Journal) -> AsyncGenerator[None, None]:
        """Record the deed before and after: once it is done, has failed, or was cut short, for a
        part of it may be done by then."""
        await self._keep(deed, journal, finished=False)
        keep: Callable[[Deed, Journal], Awaitable[None]] | None = self._keep
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
                await keep(deed, journal)

    def _tell(self, deed: Deed) -> None:
        said = {"actor": self._actor, "verb": deed.verb, "target": deed.target}
        outcome = deed.error or "done"
        more = {"detail": deed.detail, "outcome": outcome, "address": self._address}
        # Failures too: whoever acts is told by the error itself.
        log.info("%s: %s %s (%s): %s", *said.values(), deed.detail, outcome, extra={**said, **more})

    async def _keep_in_time(self, deed: Deed, journal: Journal) -> None:
        """Whatever is cancelled meanwhile, and for no longer than a moment."""
        keeping = asyncio.create_task(self._keep(deed, journal))
        _, late = await asyncio.wait({keeping}, timeout=_GRACE)
        if late:
            keeping.cancel()
            log.warning("what %s did could not be recorded in time", self._actor)

    async def _keep(self, deed: Deed, journal: Journal, *, finished: bool = True) -> None:
        try:
            await self._write(await journal.store(), deed, journal.keep, finished)
        except Exception as error:
            log.warning("what %s did could not be recorded: %s", self._actor, error)

    async def _write(self, store: Store, deed: Deed, keep: float, finished: bool) -> None:
        if not deed.id:
            deed.at_ms = await store.time_ms()
            # In order by name, also those of one process that share a millisecond.
            deed.id = f"{deed.at_ms:014d}-{next(_numbers):09d}-{secrets.token_hex(4)}"
        record = _Record(
            *(deed.at_ms, self._actor, deed.verb, deed.target, deed.detail, deed.error),
            *(self._address, deed.changes, finished, deed.redacted),
        )
        most = limits.ACTIONS_KEPT_COUNT
        await store.record(_SPACE, deed.id, _encode(record), keep=keep, most=most)


async def read_deeds(store: Store, keep: float, limit: int, before: str) -> list[DeedInfo]:
    """The latest first; what another version wrote and this one cannot read is left out."""
    found: list[DeedInfo] = []
    while len(found) < limit:
        page = await store.records(_SPACE, before, min(limit, _PAGE), keep=keep)
        for before, data in page:
            with suppress(*_UNREADABLE):
                found.append(DeedInfo.of(before, _decode(data)))
        if len(page) < min(limit, _PAGE):
            break
    return found[:limit]


def _value(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _MOST_VALUE else text[: _MOST_VALUE - 1] + "…"


def _line(text: str) -> str:
    """One line of plainly visible text: names and errors may hold anything, and logs are read in
    terminals."""
    shown = harmless(" ".join(text[: 2 * _MOST_TEXT].split()))
    return shown if len(shown) <= _MOST_TEXT else shown[: _MOST_TEXT - 1] + "…"
