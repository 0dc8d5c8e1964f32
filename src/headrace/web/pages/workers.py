"""Workers, and what each runs."""

from __future__ import annotations

from headrace.web.actions.form_actions import form_action
from headrace.web.page import HtmlPage
from headrace.web.visit import Visit

# More would make each update of the page large.
_SHOWN = 100
_RUNS_SHOWN = 10


async def workers(visit: Visit) -> HtmlPage:
    """Two calls to the store."""
    found = await visit.admin.workers()
    supervisors = await visit.admin.supervisors()
    context = {
        "workers": found[:_SHOWN],
        "total": len(found),
        "held": sum(worker.running for worker in found),
        "slots": sum(worker.concurrency for worker in found),
        "hosts": len({worker.host for worker in found}),
        "versions": sorted({worker.version for worker in found}),
        "supervisors": supervisors,
        "runs_shown": _RUNS_SHOWN,
    }
    lists = {"supervisors": supervisors}
    return HtmlPage("workers.html", "Workers", context, live=1.5, rows=found, lists=lists)


@form_action("stop_worker", "Stop", confirm=lambda visit: f"Stop worker {visit.asked('name')}?")
async def stop_worker(visit: Visit) -> str:
    """Ask a worker to take no more jobs, and to end when its running ones have."""
    name = visit.asked("name")
    await visit.admin.stop_worker(name, True if visit.form.get("wait") else None)
    return f"Asked worker {name} to stop: it takes no more jobs."
