"""The audit log, and the page of an action that takes longer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from headrace.admin import Action
from headrace.web.page import HtmlPage
from headrace.web.visit import Visit

_SHOWN = 200


async def actions(visit: Visit) -> HtmlPage:
    """The latest actions; makes one call to the store."""
    before = visit.query.get("before", "")
    found = await visit.admin.actions(limit=_SHOWN + 1, before=before)
    # Records made without the dashboard's `redact` may show what it hides.
    is_open = visit.dashboard.redact is None
    context: dict[str, Any] = {
        "actions": [each if is_open or each.redacted else _hidden(each) for each in found[:_SHOWN]],
        "older": found[_SHOWN - 1].id if len(found) > _SHOWN else None,
        "before": before,
        "days": visit.app.actions_kept / 86_400,
    }
    every = None if before else 5.0
    return HtmlPage("actions.html", "Audit log", context, every, rows=context["actions"])


def _hidden(action: Action) -> Action:
    names = (change.partition(":")[0] for change in action.changes)
    return replace(action, changes=tuple(f"{name}: (hidden)" for name in names))


async def action(visit: Visit) -> HtmlPage:
    """An action that goes on in the background, and how it ended. Makes no call to the store."""
    found = visit.dashboard.background_actions.get(visit.query.get("id", ""))
    goes_on = found is not None and found.flash is None
    title = found.label if found is not None else "Action"
    context = {"action": found, "refresh": 2 if goes_on else None}
    return HtmlPage("action.html", title, context, live=1.0 if goes_on else None)
