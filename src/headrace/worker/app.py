"""`WorkerApp`: what a worker needs of its app."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

from headrace.audit.audit import Audit
from headrace.client.declarations import DeclaredApp
from headrace.client.ends.listener import Listener
from headrace.core.job.history_rules import HistoryRules
from headrace.core.scaling.snapshot import ScalingStrategy
from headrace.core.sends import Sends
from headrace.middleware.wrapping import Middleware

if TYPE_CHECKING:
    from headrace.metrics.pusher import MetricsPusher


class WorkerApp(DeclaredApp, Protocol):
    """An app as a worker sees it. `Headrace` is one."""

    @property
    def modules(self) -> Sequence[str]:
        """What `include=` names."""
        ...

    @property
    def crash_limit(self) -> int: ...

    @property
    def max_reconnect(self) -> float | None: ...

    @property
    def events(self) -> bool: ...

    @property
    def history_rules(self) -> HistoryRules: ...

    @property
    def middlewares(self) -> Sequence[Middleware]: ...

    @property
    def audits(self) -> Sequence[Audit]: ...

    @property
    def error_hooks(self) -> Sequence[Callable[[str, BaseException, dict[str, Any]], object]]: ...

    @property
    def listeners(self) -> Sequence[Listener]: ...

    @property
    def lifespan_function(self) -> Callable[..., AsyncIterator[Any]] | None: ...

    @property
    def metrics_pushers(self) -> Sequence[MetricsPusher]: ...

    @property
    def sends(self) -> Sends: ...

    @property
    def running_workers(self) -> set[object]:
        """Workers add themselves."""

    @property
    def scaling_strategy(self) -> ScalingStrategy | None: ...

    async def __aenter__(self) -> object: ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...
