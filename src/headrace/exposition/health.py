"""Whether a worker is alive, whether it takes jobs, and whether the store answers: for probes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from headrace.errors import HeadraceError
from headrace.exposition.server import HttpResponse
from headrace.metrics.totals import Presence, TotalsSnapshot

if TYPE_CHECKING:
    from headrace.admin import Admin
    from headrace.client.portal import Portal
    from headrace.core.sends import Sends

_TIMEOUT = 3.0
_MAX_AGE = 1.0
# A loop that is blocked for longer rarely recovers, and its jobs time out.
_BLOCKED = 15.0
# Longer than a beat can take on a store that hangs.
_SILENT = 60.0
# Totals are written every second.
_STALE = 15.0
# A younger process may still be importing its app.
_YOUNG = 60.0


def response(problems: Sequence[str]) -> HttpResponse:
    """200 without problems, else 503; the problems as JSON."""
    body = msgspec.json.encode({"ok": not problems, "reasons": list(problems)}) + b"\n"
    return HttpResponse(body, "application/json", 503 if problems else 200)


def liveness_problems(presence: Presence) -> list[str]:
    """Why a worker should be restarted; empty if it is alive, or still starting."""
    found = [f"{part} has failed" for part in presence.broken]
    if presence.blocked > _BLOCKED:
        found.append(f"the event loop has been blocked for {presence.blocked:.0f} s")
    if presence.silent > _SILENT:
        found.append(f"the heartbeat has been silent for {presence.silent:.0f} s")
    return found


def readiness_problems(presence: Presence, store_error: str) -> list[str]:
    """Why a worker does not take jobs; empty if it does."""
    found = liveness_problems(presence)
    if presence.phase == "starting":
        found.append("the worker is starting and takes no jobs yet")
    if presence.phase == "stopping":
        found.append("the worker is stopping and takes no more jobs")
    return found + store_problems(store_error)


def supervisor_liveness_problems(
    ages: Mapping[int, float], latest: Mapping[int, TotalsSnapshot]
) -> list[str]:
    """Why a supervisor and its processes should be restarted. By pid: the age of each process in
    seconds, and the totals that it wrote last."""
    found = [] if ages else ["no worker process is alive"]
    for pid, age in ages.items():
        found += [f"worker process {pid}: {why}" for why in _of_process(age, latest.get(pid))]
    return found


def supervisor_readiness_problems(
    ages: Mapping[int, float], latest: Mapping[int, TotalsSnapshot], store_error: str
) -> list[str]:
    """Why a supervisor takes no jobs. One process that takes jobs is enough: others may be
    starting."""
    found = supervisor_liveness_problems(ages, latest)
    phases = [latest[pid].presence.phase for pid in ages if pid in latest]
    if "working" not in phases:
        found.append("no worker process takes jobs")
    return found + store_problems(store_error)


def store_problems(error: str) -> list[str]:
    """The store's error as a problem; empty if there is none."""
    return [f"the store cannot be reached: {error}"] if error else []


def _of_process(age: float, snapshot: TotalsSnapshot | None) -> Iterator[str]:
    if snapshot is None:
        if age > _YOUNG:
            yield f"no totals written since it was started {age:.0f} s ago"
        return
    since = time.monotonic() - snapshot.written_at
    if since > _STALE:
        yield f"no totals written for {since:.0f} s"
    yield from liveness_problems(snapshot.presence)


class MonitoredApp(Protocol):
    """What metrics and probes need of an app."""

    @property
    def admin(self) -> Admin: ...
    @property
    def portal(self) -> Portal: ...
    @property
    def metrics_prefix(self) -> str: ...
    @property
    def sends(self) -> Sends: ...


class StoreProbe:
    """Asks a store a question of constant cost, at most once a second for all callers. A store
    that does not answer within a few seconds counts as away."""

    def __init__(self, app: MonitoredApp) -> None:
        self._app = app
        self._error = ""
        self._asked_at = float("-inf")
        self._asking: asyncio.Task[str] | None = None

    async def error(self) -> str:
        """Why the store does not answer; empty if it does."""
        if time.monotonic() - self._asked_at < _MAX_AGE:
            return self._error
        loop, asking = asyncio.get_running_loop(), self._asking
        if asking is None or asking.done() or asking.get_loop() is not loop:
            asking = self._asking = loop.create_task(self._ask())
        # Others may await the same task when the first caller is cancelled.
        return await asyncio.shield(asking)

    async def _ask(self) -> str:
        self._error = await error_within(self._app.admin.supervisors(), _TIMEOUT)
        self._asked_at = time.monotonic()
        return self._error


async def error_within(question: Awaitable[object], seconds: float) -> str:
    """Why the store has not answered `question` within `seconds`; empty if it has."""
    try:
        async with asyncio.timeout(seconds):
            await question
    except TimeoutError:
        return f"the store did not answer within {seconds:g} s"
    except (HeadraceError, OSError) as error:
        return str(error) or type(error).__name__
    return ""
