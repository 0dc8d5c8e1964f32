"""`headrace demo`: what Headrace does, shown in ten seconds, without a server."""

from __future__ import annotations

import sys

import click


@click.command()
def demo() -> None:
    """Show what Headrace does, in about ten seconds.

    Runs worker processes on an SQLite file in a temporary directory and leaves nothing behind. It
    checks what it shows: the exit code is 0 only if all of it happened.
    """
    from headrace.demo.performance import perform

    sys.exit(0 if perform() else 1)
