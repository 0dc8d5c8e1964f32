"""The option `--wait-for-store`, of commands that may start before their store does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


def wait_for_store_option(default: str) -> Callable[[Command], Command]:
    """`default` says what happens without it."""
    return click.option(
        "--wait-for-store",
        type=click.FloatRange(min=0),
        envvar="HEADRACE_WAIT_FOR_STORE",
        show_envvar=True,
        metavar="SECONDS",
        help=f"How long to wait for the store at the start.  [default: {default}]",
    )
