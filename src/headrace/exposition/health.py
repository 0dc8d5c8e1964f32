"""Whether a worker lives, and whether it takes jobs: for probes."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from headrace.exposition.server import Page
from headrace.metrics.totals import Presence, Snapshot

# A loop that is blocked for longer does not come back soon, and its jobs time out.
_BLOCKED = 15.0
# Beyond what a store that hangs can make a beat take.
_SILENT = 60.0
# Totals are written every second.
_STALE = 15.0
# Until then a process may be importing its app.
_YOUNG = 60.0


def page(troubles: Sequence[str]) -> Page:
    """200 if there is no trouble, else 503; the troubles as JSON."""
    body = msgspec.json.encode({"ok": not troubles, "reasons": list(troubles)}) + b"\n"
    return Page(body, "application/json", 503 if troubles else 200)


def why_not_alive(presence: Presence) -> list[str]:
    """Why a worker should be ended and started anew; nothing if it lives, or is only starting."""
    found = [f"{part} works no more" for part in presence.broken]
    if presence.blocked > _BLOCKED:
        found.append(f"the event loop has been blocked for {presence.blocked:.0f} s")
    if presence.silent > _SILENT:
        found.append(f"the heartbeat has been silent for {presence.silent:.0f} s")
    return found


def why_not_ready(presence: Presence, store_trouble: str) -> list[str]:
    """Why it does not take jobs; nothing if it does."""
    found = why_not_alive(presence)
    if presence.phase == "starting":
        found.append("the worker has not begun to take jobs")
    if presence.phase == "stopping":
        found.append("the worker stops, and takes no more jobs")
    return found + why_store_not_ready(store_trouble)


def why_crew_not_alive(ages: Mapping[int, float], latest: Mapping[int, Snapshot]) -> list[str]:
    """The same of a parent and its processes: how many seconds ago each was started, and what each
    has last written."""
    found = [] if ages else ["no worker process lives"]
    for pid, age in ages.items():
        found += [f"worker process {pid}: {why}" for why in _of_process(age, latest.get(pid))]
    return found


def why_crew_not_ready(
    ages: Mapping[int, float], latest: Mapping[int, Snapshot], store_trouble: str
) -> list[str]:
    """One process that takes jobs is enough: others may just be starting."""
    found = why_crew_not_alive(ages, latest)
    phases = [latest[pid].presence.phase for pid in ages if pid in latest]
    if "working" not in phases:
        found.append("no worker process takes jobs")
    return found + why_store_not_ready(store_trouble)


def why_store_not_ready(trouble: str) -> list[str]:
    """As a reason, if there is trouble with the store."""
    return [f"the store cannot be reached: {trouble}"] if trouble else []


def _of_process(age: float, snapshot: Snapshot | None) -> Iterator[str]:
    if snapshot is None:
        if age > _YOUNG:
            yield f"it has told nothing since it was started {age:.0f} s ago"
        return
    since = time.monotonic() - snapshot.written_at
    if since > _STALE:
        yield f"it has told nothing for {since:.0f} s"
    yield from why_not_alive(snapshot.presence)
