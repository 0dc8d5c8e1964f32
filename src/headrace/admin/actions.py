"""Actions of people: who did what, recorded in the store and in a log."""

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

from headrace.core import bounds as limits
from headrace.core.clock import to_datetime
from headrace.core.display import harmless
from headrace.core.masking import NOTHING_HIDDEN, Masks, hidden_in
from headrace.errors import ConfigError

if TYPE_CHECKING:
    from headrace.admin.redaction import Redaction
    from headrace.store.contract import Store

log = logging.getLogger("headrace.actions")

_SPACE = "actions"
_MOST_TEXT = 500
_MOST_CHANGES = 20
_MOST_VALUE = 120
_PAGE = 500
# Seconds to record an action that was interrupted.
_GRACE = 2.0
_numbers = count()
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


@dataclass(frozen=True, slots=True)
class Action:
    """A change that someone made, or tried to make, with `app.admin.by(...)`."""

    at: datetime
    """When it began, by the store's clock."""
    actor: str
    """Who did it."""
    verb: str
    """The method of the admin: `pause`, `replay` and so on."""
    target: str
    """What it was done to: a queue, a group, a schedule, an id, or how many ids."""
    detail: str
    """Further arguments, and the result."""
    error: str | None
    """Why it failed, or "cut short" if it was interrupted; None if it succeeded."""
    address: str = ""
    """Where the actor was, if known: the address that a request to the dashboard came from."""
    changes: tuple[str, ...] = ()
    """Values that were changed, such as `to: 'ann' → 'bob'`."""
    finished: bool = True
    """False while it runs; and for ever if the process died meanwhile: then none, some or all of it
    was done."""
    id: str = ""
    """Names the record: `actions(before=…)` goes on from it."""
    redacted: bool = False
    """Whether `changes` went through a redact hook."""

    @classmethod
    def of(cls, id: str, record: ActionRecord) -> Action:
        return cls(
            to_datetime(record.at_ms),
            *(record.actor, record.verb, record.target, record.detail, record.error or None),
            *(record.address, tuple(record.changes), record.finished, id, record.redacted),
        )


class ActionRecord(msgspec.Struct, frozen=True):
    """An action as the store keeps it."""

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
_decode = msgspec.msgpack.Decoder(ActionRecord).decode


class PendingAction:
    """An action under way. Its result is added to `detail` at the end."""

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
        """Note which arguments of a job change, redacted."""
        self.redacted = redaction.active
        names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
        # A hook may change what it is given.
        shown = [redaction.value(task, deepcopy(dict(values))) for values in (old, new)]
        # A value that is hidden in one argument may be in another too.
        masks = Masks([*hidden_in(old, shown[0]), *hidden_in(new, shown[1])])
        for name in names:
            before, after = (
                each.get(name) if isinstance(each, Mapping) else each for each in shown
            )
            self.changed(name, before, after, masks)

    def changed(self, what: str, old: object, new: object, masks: Masks = NOTHING_HIDDEN) -> None:
        """Note that a value changed."""
        if len(self.changes) < _MOST_CHANGES:
            values = [masks.text(_value(each)) for each in (old, new)]
            self.changes.append(_line(f"{what}: {' → '.join(values)}"))
        elif len(self.changes) == _MOST_CHANGES:
            self.changes.append("…")


@dataclass(frozen=True, slots=True)
class ActionLog:
    """Where actions are recorded, and for how long."""

    store: Callable[[], Awaitable[Store]]
    keep: float


class ActionRecorder:
    """Records the actions of one actor: each before it begins, and again with its result. If the
    store cannot keep a record, the log alone has it, and the action goes on."""

    def __init__(self, actor: object, address: str = "") -> None:
        if not isinstance(actor, str) or not actor.strip():
            raise ConfigError(f"an actor is a text that says who acts, not {actor!r}")
        self.actor = _line(actor)
        self._address = _line(address)

    @asynccontextmanager
    async def recording(
        self, action: PendingAction, action_log: ActionLog
    ) -> AsyncGenerator[None, None]:
        """Record the action before it begins and when it ends: done, failed, or cut short."""
        await self._keep(action, action_log, finished=False)
        keep: Callable[[PendingAction, ActionLog], Awaitable[None]] | None = self._keep
        try:
            yield
        except Exception as error:
            action.error = _line(f"{type(error).__name__}: {error}")
            raise
        except BaseException as error:
            action.error = "cut short"
            # A generator that is closed cannot wait for anything.
            keep = None if isinstance(error, GeneratorExit) else self._keep_in_time
            raise
        finally:
            self._log(action)
            if keep is not None:
                await keep(action, action_log)

    def _log(self, action: PendingAction) -> None:
        said = {"actor": self.actor, "verb": action.verb, "target": action.target}
        outcome = action.error or "done"
        more = {"detail": action.detail, "outcome": outcome, "address": self._address}
        # Failures at this level too: the actor gets the error itself.
        log.info(
            "%s: %s %s (%s): %s", *said.values(), action.detail, outcome, extra={**said, **more}
        )

    async def _keep_in_time(self, action: PendingAction, action_log: ActionLog) -> None:
        """Keep it, also while the caller is cancelled, but for at most `_GRACE` seconds."""
        keeping = asyncio.create_task(self._keep(action, action_log))
        _, late = await asyncio.wait({keeping}, timeout=_GRACE)
        if late:
            keeping.cancel()
            log.warning(
                "what %s did could not be recorded in time",
                self.actor,
                extra={"actor": self.actor},
            )

    async def _keep(
        self, action: PendingAction, action_log: ActionLog, *, finished: bool = True
    ) -> None:
        try:
            await self._write(await action_log.store(), action, action_log.keep, finished)
        except Exception as error:
            log.warning(
                "what %s did could not be recorded: %s",
                self.actor,
                error,
                extra={"actor": self.actor, "error": str(error)},
            )

    async def _write(
        self, store: Store, action: PendingAction, keep: float, finished: bool
    ) -> None:
        if not action.id:
            action.at_ms = await store.time_ms()
            # Ids sort by time, also within one millisecond of a process.
            action.id = f"{action.at_ms:014d}-{next(_numbers):09d}-{secrets.token_hex(4)}"
        record = ActionRecord(
            *(action.at_ms, self.actor, action.verb, action.target, action.detail, action.error),
            *(self._address, action.changes, finished, action.redacted),
        )
        most = limits.ACTIONS_KEPT_COUNT
        await store.record(_SPACE, action.id, _encode(record), keep=keep, most=most)


async def read_actions(store: Store, keep: float, limit: int, before: str) -> list[Action]:
    """The latest first; records that this version cannot read are left out."""
    found: list[Action] = []
    while len(found) < limit:
        page = await store.records(_SPACE, before, min(limit, _PAGE), keep=keep)
        for before, data in page:
            with suppress(*_UNREADABLE):
                found.append(Action.of(before, _decode(data)))
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
