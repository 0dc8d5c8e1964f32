"""The `headrace` program: a file per command, each imported when it is used."""

from __future__ import annotations

import click

from headrace.cli.program import Program
from headrace.core.version import VERSION

COMMANDS = {
    "asyncapi": "headrace.cli.topics.asyncapi:asyncapi",
    "bench": "headrace.cli.bench:bench",
    "dashboard": "headrace.cli.processes.dashboard:dashboard",
    "check": "headrace.cli.check:check",
    "dead": "headrace.cli.jobs.dead:dead",
    "actions": "headrace.cli.actions:actions",
    "demo": "headrace.cli.demo:demo",
    "dev": "headrace.cli.processes.dev:dev",
    "jobs": "headrace.cli.jobs.commands:jobs",
    "outbox": "headrace.cli.processes.outbox:outbox",
    "queues": "headrace.cli.queues:queues",
    "schedules": "headrace.cli.schedules:schedules",
    "stats": "headrace.cli.stats:stats",
    "top": "headrace.cli.top:top",
    "topics": "headrace.cli.topics.commands:topics",
    "worker": "headrace.cli.processes.worker:worker",
    "workers": "headrace.cli.workers:workers",
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
