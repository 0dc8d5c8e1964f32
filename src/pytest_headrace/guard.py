"""Keeps tests that do not take the fixture away from the real store of their app."""

from __future__ import annotations

from typing import Any

from headrace import ConfigError, Headrace
from headrace.testing.faults.store_faults import VERBS


class GuardedStore:
    """Stands for the store of an app outside of its test kit: it may be opened, as a web
    framework does at its start, and refuses all else."""

    def __init__(self, named: str) -> None:
        self._named = named

    async def open(self) -> None:
        """Nothing: there is no connection."""

    async def close(self) -> None:
        """Nothing."""

    def __getattr__(self, name: str) -> Any:
        if name in VERBS or name == "consumer":
            raise ConfigError(
                f"{self._named} is used outside of the fixture headrace, and would reach its real "
                "store: have the test take the fixture, or set headrace_real_store = true in "
                "pytest's settings"
            )
        raise AttributeError(name)


def guard(app: object, named: str) -> Headrace | None:
    """Refuse what would reach the real store of an app that has not opened it yet; the app, if
    that is new."""
    if not isinstance(app, Headrace) or app.url.startswith("memory:"):
        return None
    if vars(app)["_store"] is not None:
        return None
    vars(app)["_store"] = GuardedStore(named)
    return app


def release(app: Headrace) -> None:
    """Let the app have its store again."""
    if isinstance(vars(app)["_store"], GuardedStore):
        vars(app)["_store"] = None
