"""The view for each path. Importing a module registers its actions."""

from __future__ import annotations

from headrace.web.actions import job_actions  # noqa: F401
from headrace.web.pages import (
    actions,
    dead,
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
    "/task": queues.task,
    "/jobs": jobs.jobs,
    "/job": job.job,
    "/find": job.find,
    "/dead": dead.dead,
    "/dead_job": dead.dead_job,
    "/topics": topics.topics,
    "/topic": topics.topic,
    "/group": topics.group,
    "/workers": workers.workers,
    "/schedules": schedules.schedules,
    "/actions": actions.actions,
    "/action": actions.action,
}

NAVIGATION = (
    ("/", "Overview", ()),
    ("/queues", "Queues", ("/queue", "/task")),
    ("/jobs", "Jobs", ("/job", "/find")),
    ("/dead", "Dead", ("/dead_job",)),
    ("/schedules", "Schedules", ()),
    ("/topics", "Topics", ("/topic", "/group")),
    ("/workers", "Workers", ()),
    ("/actions", "Audit log", ("/action",)),
)
"""A link and a label for each part, and the other paths that belong to it."""
