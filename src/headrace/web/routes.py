"""Which view shows what is at a path. Actions are registered as their modules are imported."""

from __future__ import annotations

from headrace.web.actions import job_actions, topic_actions  # noqa: F401
from headrace.web.pages import (
    actions,
    dead,
    find,
    job,
    jobs,
    overview,
    queues,
    schedules,
    topics,
    workers,
)
from headrace.web.visit import View

VIEWS: dict[str, View] = {
    "/": overview.overview,
    "/queues": queues.queues,
    "/queue": queues.queue,
    "/jobs": jobs.jobs,
    "/job": job.job,
    "/find": find.find,
    "/dead": dead.dead,
    "/dead_job": dead.dead_job,
    "/topics": topics.topics,
    "/topic": topics.topic,
    "/group": topics.group,
    "/workers": workers.workers,
    "/schedules": schedules.schedules,
    "/actions": actions.actions,
    "/doing": actions.doing,
}

NAVIGATION = (
    ("/", "Overview", ()),
    ("/queues", "Queues", ("/queue",)),
    ("/jobs", "Jobs", ("/job", "/find")),
    ("/dead", "Dead", ("/dead_job",)),
    ("/schedules", "Schedules", ()),
    ("/topics", "Topics", ("/topic", "/group")),
    ("/workers", "Workers", ()),
    ("/actions", "Audit log", ("/doing",)),
)
"""What leads to each part, and the other paths that belong to it."""
