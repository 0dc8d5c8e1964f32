"""`headrace top`: the terminal view."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

import click

from headrace.cli.asking import of_app, whoever
from headrace.errors import ConfigError

if TYPE_CHECKING:
    from headrace import Headrace


@click.command()
@of_app
@click.option(
    "--every",
    type=click.FloatRange(min=0.5),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="How often to look.",
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

    async def run() -> None:
        async with app:
            await Top(app.admin.by(whoever()), every).run_async()

    asyncio.run(run())
