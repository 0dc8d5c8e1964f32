"""`AdminApp`: what the admin needs of its app."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from headrace.client.declarations import DeclaredApp


class AdminApp(DeclaredApp, Protocol):
    """An app as the admin sees it. `Headrace` is one."""

    @property
    def redact(self) -> Callable[[str, Any], Any] | str | None: ...

    @property
    def actions_kept(self) -> float: ...
