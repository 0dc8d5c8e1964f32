"""What may be seen of jobs: the one place that calls redact hooks.

Every answer of an admin made by `redacted` goes through here, for the dashboard, the command line
and the terminal view.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.admin.app import named
from headrace.admin.bodies import MOST_SHOWN, TooLargeToShow, arguments_of
from headrace.core.job.constraints import (
    BATCH_GATE,
    NO_CONSTRAINTS,
    RATE_GATE,
    Constraints,
    Limit,
    batch_gate,
    rate_gate,
)
from headrace.core.job.envelope import Envelope
from headrace.core.job.progress import Progress
from headrace.core.masking import NOTHING_HIDDEN, Masks, hidden_in
from headrace.core.queue_names import is_log
from headrace.errors import ConfigError, StoreError

if TYPE_CHECKING:
    from headrace.admin.app import AdminApp
    from headrace.client.attempts import AttemptInfo
    from headrace.store.contract import Store

log = logging.getLogger("headrace.admin")

Redact = Callable[[str, Any], Any]
"""Takes the name of a task (of an event, `@` and its topic) and arguments, a result or data;
returns what is shown of it."""

FAILED = "(hidden: redact failed)"
_KEY = "key:"
_SPACE, _SALT = "redaction", "salt"
_SALT_BYTES = 32


class Redaction:
    """No redaction: everything is shown."""

    active = False

    async def prepare(self, store: Store) -> None:
        """Read what the store keeps for it. Called before anything is shown."""

    def arguments(self, envelope: Envelope | None, most: int = MOST_SHOWN) -> Any:
        """What is shown of the arguments of a job, or of the data of an event, if these take no
        more bytes than `most`."""
        return arguments_of(envelope, most)

    def value(self, task: str | None, value: Any) -> Any:
        """What is shown of a result."""
        return value

    def first_argument(self, task: str, value: Any) -> Any:
        """What is shown of a first argument that came from other jobs."""
        return value

    def masks(
        self,
        envelope: Envelope | None,
        constraints: Constraints = NO_CONSTRAINTS,
        result: Any = None,
    ) -> Masks:
        """What is hidden of a job, to be masked in all its texts."""
        return NOTHING_HIDDEN

    def name(self, text: str) -> str:
        """A name made of arguments that are not available."""
        return text

    def detail(self, text: str, task: str) -> str:
        """The detail of an event about a job that cannot be read any more."""
        return text

    def said(self, text: str) -> str:
        """A text that someone searched for."""
        return text


CLEAR = Redaction()


class Hooked(Redaction):
    """Shows what the redact hooks leave."""

    active = True

    def __init__(self, app: AdminApp, hooks: Sequence[Redact]) -> None:
        self._app = app
        self._hooks = hooks
        self._use_salt(_own_salt)
        self._is_prepared = False

    async def prepare(self, store: Store) -> None:
        if not self._is_prepared:
            self._use_salt(await _salt_in(store))
            self._is_prepared = True

    def _use_salt(self, salt: bytes) -> None:
        self._salt = salt
        self._all = Masks(everything=True, salt=salt)

    def arguments(self, envelope: Envelope | None, most: int = MOST_SHOWN) -> Any:
        return None if envelope is None else self.value(envelope.task, self._given(envelope, most))

    def value(self, task: str | None, value: Any) -> Any:
        if isinstance(value, TooLargeToShow):
            return value
        return FAILED if (shown := self._shown(task, value)) is _FAILURE else shown

    def first_argument(self, task: str, value: Any) -> Any:
        shown = self.value(task, named(self._app, task, [value]))
        if isinstance(shown, Mapping):
            # By the name of the parameter; a hook may leave it out.
            first = next(iter(shown.values()), None)
            return first[0] if isinstance(first, tuple) and first else first  # of `*args`
        return shown[0] if isinstance(shown, list | tuple) and shown else shown

    def masks(
        self,
        envelope: Envelope | None,
        constraints: Constraints = NO_CONSTRAINTS,
        result: Any = None,
    ) -> Masks:
        if envelope is None:
            return self._all
        # Decoded twice: a hook may change what it is given.
        first = self._given(envelope)
        if isinstance(first, TooLargeToShow) or isinstance(result, TooLargeToShow):
            return self._all
        shown = self._shown(envelope.task, first)
        shown_result = self._shown(envelope.task, _copied(result))
        if shown is _FAILURE or shown_result is _FAILURE:
            return self._all
        given = self._given(envelope)
        if given is None and envelope.payload:
            # Unreadable.
            return self._all
        hidden = hidden_in(given, shown)
        if hidden:
            # Names may be made from hidden values.
            hidden += _names(envelope, constraints)
        return Masks([*hidden, *hidden_in(result, shown_result)], salt=self._salt)

    def name(self, text: str) -> str:
        return self._all.name(text)

    def detail(self, text: str, task: str) -> str:
        return masked_gate(text, self._all, task)

    def said(self, text: str) -> str:
        return self._all.text(text)

    def _given(self, envelope: Envelope, most: int = MOST_SHOWN) -> Any:
        arguments = arguments_of(envelope, most)
        if is_log(envelope.task):
            return arguments
        return named(
            self._app, envelope.task, arguments, lacks_first_argument=bool(envelope.overrides.feed)
        )

    def _shown(self, task: str | None, value: Any) -> Any:
        try:
            for hook in self._hooks:
                value = hook(task or "", value)
        except Exception as error:
            # Not its text: it may quote what it should have hidden.
            log.error(
                "redact failed for a job of task %r (%s); nothing is shown",
                *(task, type(error).__name__),
                extra={"task": task},
            )
            return _FAILURE
        return value


_FAILURE = object()
# Where the store cannot keep one: names are then the same in this process alone.
_own_salt = secrets.token_bytes(_SALT_BYTES)


async def _salt_in(store: Store) -> bytes:
    """A secret that all processes share, so that a hidden name is replaced alike on every page, and
    nobody finds it by trying out names. Made up by the first one that needs it."""
    found = (await store.kv_all(_SPACE)).get(_SALT)
    if found is None:
        made = secrets.token_bytes(_SALT_BYTES)
        try:
            if await store.kv_set(_SPACE, _SALT, made, expected=None):
                return made
        except StoreError:
            # Full, or for a user who may only read.
            return _own_salt
        found = (await store.kv_all(_SPACE)).get(_SALT)
    # An odd value from elsewhere would be no secret.
    return found if found is not None and len(found) == _SALT_BYTES else _own_salt


def redaction_of(app: AdminApp, more: Redact | None = None) -> Redaction:
    """The redaction by the app's hook and this one; `CLEAR` if there is neither."""
    hooks = [each for each in (_hook_of(app), more) if each is not None]
    return Hooked(app, hooks) if hooks else CLEAR


def _hook_of(app: AdminApp) -> Redact | None:
    """Resolved only here: its module may be the one that makes the app."""
    if not isinstance(app.redact, str):
        return app.redact
    module, _, path = app.redact.partition(":")
    try:
        found: Any = import_module(module)
        for name in path.split("."):
            found = getattr(found, name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(
            f"redact is {app.redact!r}, which cannot be found: write module:function ({error})"
        ) from None
    if not callable(found):
        raise ConfigError(f"redact is {app.redact!r}, which is not a function")
    hook: Redact = found
    return hook


def masked_attempts(attempts: Sequence[AttemptInfo], masks: Masks) -> tuple[AttemptInfo, ...]:
    if not masks.hides:
        return tuple(attempts)
    return tuple(
        replace(
            each,
            error_type=masks.text(each.error_type),
            error_text=masks.text(each.error_text),
            traceback=masks.text(each.traceback),
        )
        for each in attempts
    )


def masked_tags(envelope: Envelope | None, masks: Masks) -> tuple[str, ...]:
    """The tags that a job was sent with, each without hidden values."""
    return tuple(map(masks.text, envelope.overrides.tags)) if envelope else ()


def masked_progress(progress: Progress | None, masks: Masks) -> Progress | None:
    if progress is None or not masks.hides:
        return progress
    return msgspec.structs.replace(progress, text=masks.text(progress.text))


def masked_lane(lane: str, masks: Masks, task: str | None) -> str:
    """The key in it by another name. That of an event is nothing but its key."""
    if task is None or is_log(task):
        return masks.name(lane)
    return f"{_KEY}{masks.name(lane.removeprefix(_KEY))}" if lane.startswith(_KEY) else lane


def masked_gate(gate: str, masks: Masks, task: str | None) -> str:
    """The name of a limit or a batch, with another in place of its `rate_key` or `batch_key`."""
    kind = next((each for each in (RATE_GATE, BATCH_GATE) if gate.startswith(each)), None)
    whole = batch_gate(task or "") if kind == BATCH_GATE else rate_gate(task or "")
    if not masks.hides or kind is None or gate == whole:
        return gate
    known = task is not None and gate.startswith(f"{whole}:")
    key = gate[len(whole) + 1 :] if known else gate.removeprefix(kind)
    return f"{whole if known else kind.rstrip(':')}:{masks.name(key)}"


def masked_limits(limits: Sequence[Limit], masks: Masks, task: str | None) -> tuple[Limit, ...]:
    return tuple(
        msgspec.structs.replace(each, name=masked_gate(each.name, masks, task)) for each in limits
    )


def _names(envelope: Envelope, constraints: Constraints) -> list[str]:
    """Names of a job that may be made of its arguments."""
    task = envelope.task
    rates = [each.name.removeprefix(f"{rate_gate(task)}:") for each in constraints.limits]
    names = [
        envelope.overrides.key,
        constraints.lane.removeprefix(_KEY)
        if is_log(task) or constraints.lane.startswith(_KEY)
        else "",
        constraints.unique.removeprefix(f"{task}:"),
        *(each for each in rates if not each.startswith(RATE_GATE)),
    ]
    if constraints.gathering is not None:
        whole, found, batch = constraints.gathering.name.partition(f"{batch_gate(task)}:")
        names += [batch] if found and not whole else []
    return [name for name in names if name]


def _copied(value: Any) -> Any:
    """The value for a hook, which may change what it is given."""
    try:
        return deepcopy(value)
    except RecursionError:
        return value
