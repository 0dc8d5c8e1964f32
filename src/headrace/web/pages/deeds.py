"""The audit log: who did what; and a deed that takes longer."""

from __future__ import annotations

from headrace.web.page import Page, Visit

_SHOWN = 200


async def deeds(visit: Visit) -> Page:
    """One call to the store."""
    found = await visit.admin.deeds(limit=_SHOWN)
    return Page("deeds.html", "Audit log", {"deeds": found, "most": _SHOWN}, live=5.0)


async def doing(visit: Visit) -> Page:
    """A deed that goes on by itself, until it has come to something. Asks no store."""
    errand = visit.board.errands.get(visit.query.get("id", ""))
    goes_on = errand is not None and errand.notice is None
    title = errand.label if errand is not None else "Deed"
    context = {"errand": errand, "refresh": 2 if goes_on else None}
    return Page("doing.html", title, context, live=1.0 if goes_on else None)
