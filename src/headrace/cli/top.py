"""`headrace top`: the terminal view."""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import TYPE_CHECKING

import click

from headrace.cli.app_command import admin_of, current_user, of_app, secrets_option
from headrace.cli.logs import without_risks
from headrace.errors import ConfigError

if TYPE_CHECKING:
    from headrace import Headrace


@click.command()
@of_app
@secrets_option
@click.option(
    "--every",
    type=click.FloatRange(min=0.5),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="Time between updates.",
)
def top(app: Headrace, every: float) -> None:
    """Watch queues, workers and errors live in the terminal; pause, resume, replay, cancel."""
    try:
        from headrace.top import Top
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"the terminal view needs {error.name!r}: pip install 'headrace[top]'"
        ) from None
    if not sys.stdout.isatty():
        raise ConfigError("top needs a terminal: see 'headrace queues' for text")

    view = Top(admin_of(app).by(current_user()), every)

    async def run() -> None:
        # Also when the connection is lost: the terminal has to be restored.
        for number in (signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, view.exit)
        async with app:
            await view.run_async()

    with without_risks():
        asyncio.run(run())
    click.get_current_context().exit(view.return_code or 0)
