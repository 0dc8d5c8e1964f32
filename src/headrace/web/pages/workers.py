"""Workers, and what each runs."""

from __future__ import annotations

from headrace.web.page import HtmlPage
from headrace.web.visit import Visit

# More would make each update of the page large.
_SHOWN = 100
_RUNS_SHOWN = 10


async def workers(visit: Visit) -> HtmlPage:
    """Two calls to the store."""
    found = await visit.admin.workers()
    context = {
        "workers": found[:_SHOWN],
        "total": len(found),
        "held": sum(worker.running for worker in found),
        "slots": sum(worker.concurrency for worker in found),
        "hosts": len({worker.host for worker in found}),
        "versions": sorted({worker.version for worker in found}),
        "supervisors": await visit.admin.supervisors(),
        "runs_shown": _RUNS_SHOWN,
    }
    return HtmlPage("workers.html", "Workers", context, live=1.5)
