"""The `headrace` program: a file per command, each imported when it is used."""

from __future__ import annotations

import click

from headrace.cli.program import CommandAt, Program
from headrace.core.version import VERSION

# The line of each command stands here too, so that the help of the program imports none of them.
COMMANDS = {
    "actions": CommandAt(
        "headrace.cli.actions:actions",
        "Show what people did: paused, cancelled, replayed and so on, the latest first.",
    ),
    "asyncapi": CommandAt(
        "headrace.cli.topics.asyncapi:asyncapi",
        "Print the AsyncAPI 3 document of an app: its topics, their events, and the groups that "
        "receive them.",
    ),
    "bench": CommandAt(
        "headrace.cli.bench:bench",
        "Measure throughput, latency and footprint next to the raw limits of redis-py and the "
        "server.",
    ),
    "check": CommandAt(
        "headrace.cli.check:check",
        "Check that the store answers and that jobs are run.",
    ),
    "dashboard": CommandAt(
        "headrace.cli.processes.dashboard:dashboard",
        "Show and control the queues, jobs, topics and workers of APP, or of a store, in a "
        "browser.",
    ),
    "dead": CommandAt(
        "headrace.cli.jobs.dead:dead",
        "List, show, replay and purge dead jobs: those that were given up.",
    ),
    "demo": CommandAt(
        "headrace.cli.demo:demo",
        "Show what Headrace does, in about ten seconds.",
    ),
    "dev": CommandAt(
        "headrace.cli.processes.dev:dev",
        "Run APP, for example shop:app, during development: a worker with its schedules and the "
        "dashboard, both restarted whenever a Python file here changes.",
    ),
    "jobs": CommandAt(
        "headrace.cli.jobs.commands:jobs",
        "Find jobs, look at them, follow them, move them, cancel them.",
    ),
    "outbox": CommandAt(
        "headrace.cli.processes.outbox:outbox",
        "Send jobs and events that transactions of your database wrote.",
    ),
    "queues": CommandAt(
        "headrace.cli.queues:queues",
        "Show the queues, pause, resume and remove them.",
    ),
    "schedules": CommandAt(
        "headrace.cli.schedules:schedules",
        "Show the schedules, pause, resume, remove and run them.",
    ),
    "stats": CommandAt(
        "headrace.cli.stats:stats",
        "Count what was sent, done and failed of late, by queue and task, with how long runs took "
        "and had waited; and dead jobs by reason and by type of error.",
    ),
    "top": CommandAt(
        "headrace.cli.top:top",
        "Watch queues, workers and errors live in the terminal; pause, resume, replay, cancel.",
    ),
    "topics": CommandAt(
        "headrace.cli.topics.commands:topics",
        "Show the topics and their groups, read and publish events, move groups, free keys.",
    ),
    "worker": CommandAt(
        "headrace.cli.processes.worker:worker",
        "Run the jobs of APP, for example shop:app.",
    ),
    "workers": CommandAt(
        "headrace.cli.workers:workers",
        "Show the workers that are running, and stop them.",
    ),
}


@click.group(
    "headrace",
    cls=Program,
    commands_at=COMMANDS,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(VERSION, prog_name="headrace", message="%(prog)s %(version)s")
@click.pass_context
def main(context: click.Context) -> None:
    """Background jobs for Python functions, on SQLite or on Redis.

    An APP is written module:attribute, for example shop:app for the app in shop.py. Without an
    app, commands use the store of --url, $HEADRACE_URL or ./headrace.db.

    Exit codes: 0 success, 1 failure, 2 wrong usage.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
