"""Other settings of an app for a while: `with app.override(url=…)`."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Generic, Protocol, TypeVar

from headrace.client.session import ClientSession
from headrace.core.clock import Clock, SystemClock
from headrace.errors import ConfigError
from headrace.settings import NO_PROVIDER, Settings
from headrace.store.contract import Store
from headrace.store.loop_local import LeavesLoops, LoopLocal
from headrace.store.url import check_clock

# Those that concern the store and the worker. What tasks are declared with, such as the codec, does
# not change under them.
_SETTINGS = (
    *("url", "namespace", "lease", "crash_limit", "require_durable", "events"),
    *("confirm_replicas", "confirm_disk", "credential_provider", "max_reconnect"),
)
_GRACE = 5.0
_closing: set[asyncio.Task[None]] = set()


class OverriddenApp(Protocol):
    """What an override needs of an app. `Headrace` is one."""

    @property
    def running_workers(self) -> Collection[object]: ...

    @property
    def overrides(self) -> list[Any]: ...


AppT = TypeVar("AppT", bound=OverriddenApp)


class Override(Generic[AppT]):
    """`with` or `async with`: the app has these attributes, and connections of its own, inside."""

    def __init__(self, app: AppT, changes: Mapping[str, Any]) -> None:
        self._app = app
        self._changes = changes
        self._before: dict[str, Any] | None = None

    def __enter__(self) -> AppT:
        if self._before is not None:
            raise ConfigError("this override is in use: make another with app.override()")
        self._refuse_workers("begins: stop it first, or start it inside")
        state = vars(self._app)
        changes = {**self._changes, "_store": None, "_sessions": LoopLocal[ClientSession]()}
        self._before = {name: state[name] for name in changes}
        state.update(changes)
        self._app.overrides.append(self)
        return self._app

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        is_innermost = self._is_innermost
        sessions, store = self._restore()
        _close_all(sessions, store)
        if error is None:
            self._check_end(is_innermost)

    async def __aenter__(self) -> AppT:
        return self.__enter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        is_innermost = self._is_innermost
        sessions, store = self._restore()
        if (session := sessions.pop()) is not None:
            await session.close()
        _close_all(sessions, store)
        if error is None:
            self._check_end(is_innermost)

    @property
    def _is_innermost(self) -> bool:
        return self._app.overrides[-1:] == [self]

    def _restore(self) -> tuple[LoopLocal[ClientSession], Store | None]:
        state, before = vars(self._app), self._before
        if before is None:
            raise ConfigError("this override has not begun")
        self._before = None
        overrides = self._app.overrides
        place = overrides.index(self)
        later = overrides[place + 1] if place + 1 < len(overrides) else None
        # If another began meanwhile, the app stays as that one made it, and that one restores what
        # was before this one.
        here = state if later is None else later._before
        inside: tuple[LoopLocal[ClientSession], Store | None] = here["_sessions"], here["_store"]
        here.update(before)
        del overrides[place]
        return inside

    def _check_end(self, is_innermost: bool) -> None:
        if not is_innermost:
            raise ConfigError(
                "an override, or a test kit, ended before another of the same app that began after "
                "it: it holds for the whole process, so use one after the other"
            )
        self._refuse_workers("ends: stop it before")

    def _refuse_workers(self, when: str) -> None:
        if self._app.running_workers:
            raise ConfigError(f"a worker of this app runs while an override of its settings {when}")


def overridden(app: Settings, clock: Clock, given: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes of an app that change with these arguments, None if not given; `ConfigError`
    if they do not fit together. What only Redis has is left out on SQLite, unless it is given."""
    changes = {name: value for name, value in given.items() if value is not None}
    before = {name: getattr(app, name) for name in _SETTINGS}
    url = changes.get("url", app.url)
    if str(url).startswith(("sqlite:", "memory:")):
        before |= {"confirm_replicas": 0, "confirm_disk": False, "credential_provider": NO_PROVIDER}
        before["require_durable"] &= not str(url).startswith("memory:")
    own = changes.pop("clock", None)
    checked = Settings.of(**before | changes)
    if own is None and not checked.url.startswith(("sqlite:", "memory:")):
        own = SystemClock()
    clock = own or clock
    check_clock(checked.url, clock)
    return {**{name: getattr(checked, name) for name in _SETTINGS}, "clock": clock}


def _close_all(sessions: LoopLocal[ClientSession], store: object) -> None:
    """Close the sessions of all event loops, from code that cannot await."""
    here = _running_loop()
    for loop, session in sessions.all():
        if loop is here:
            # It cannot be waited for: it ends as soon as the loop goes on.
            closing = loop.create_task(session.close())
            _closing.add(closing)
            closing.add_done_callback(_closing.discard)
        elif loop.is_running():
            with suppress(TimeoutError, RuntimeError):
                asyncio.run_coroutine_threadsafe(session.close(), loop).result(_GRACE)
        elif here is None:
            loop.run_until_complete(session.close())
    if isinstance(store, LeavesLoops):
        store.close_for([loop for loop, _ in sessions.all()])


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
