"""The audit log: who did what; and a deed that takes longer."""

from __future__ import annotations

from dataclasses import replace

from headrace.admin import DeedInfo
from headrace.web.page import Page, Visit

_SHOWN = 200


async def deeds(visit: Visit) -> Page:
    """One call to the store."""
    before = visit.query.get("before", "")
    found = await visit.admin.deeds(limit=_SHOWN + 1, before=before)
    # What was recorded without the dashboard's `redact` may show what that hides.
    is_open = visit.board.redact is None
    context = {
        "deeds": [each if is_open or each.redacted else _hidden(each) for each in found[:_SHOWN]],
        "older": found[_SHOWN - 1].id if len(found) > _SHOWN else None,
        "before": before,
        "days": visit.app.actions_kept / 86_400,
    }
    return Page("deeds.html", "Audit log", context, live=None if before else 5.0)


def _hidden(deed: DeedInfo) -> DeedInfo:
    names = (change.partition(":")[0] for change in deed.changes)
    return replace(deed, changes=tuple(f"{name}: (hidden)" for name in names))


async def doing(visit: Visit) -> Page:
    """A deed that goes on by itself, until it has come to something. Asks no store."""
    errand = visit.board.errands.get(visit.query.get("id", ""))
    goes_on = errand is not None and errand.notice is None
    title = errand.label if errand is not None else "Deed"
    context = {"errand": errand, "refresh": 2 if goes_on else None}
    return Page("doing.html", title, context, live=1.0 if goes_on else None)
