"""`headrace jobs run-now` and `headrace jobs move`: other times, priorities and queues for jobs."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from headrace.cli.app_command import acted, json_option, split
from headrace.cli.app_loader import app_options, chosen_app
from headrace.cli.filters import parse_since, read_time
from headrace.cli.output import complain, show_result
from headrace.cli.program import FAILED
from headrace.core.display import plural
from headrace.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from headrace.admin import Admin


@click.command("run-now")
@click.argument("words", nargs=-1, metavar="[APP] ID...")
@app_options
@json_option
def run_now(words: tuple[str, ...], as_json: bool, **where: str | None) -> None:
    """Let scheduled jobs run now."""
    _move(words, where, lambda admin, ids: admin.run_now(ids), "due now", as_json=as_json)


@click.command("move")
@click.argument("words", nargs=-1, metavar="[APP] ID...")
@app_options
@click.option("--at", metavar="TIME", help="Run then: an ISO time, local unless it has a zone.")
@click.option("--delay", metavar="SPAN", help="Run after this time: 90s, 30m, 1h, 2d.")
@click.option("--priority", type=int, metavar="N", help="From 0 to 100.")
@click.option("--to", "queue", metavar="QUEUE", help="Another queue.")
@json_option
def move(
    words: tuple[str, ...],
    at: str | None,
    delay: str | None,
    priority: int | None,
    queue: str | None,
    as_json: bool,
    **where: str | None,
) -> None:
    """Give waiting and scheduled jobs another time, priority or queue."""
    change: dict[str, Any] = {"priority": priority, "queue": queue}
    change |= {"at": _moment(at), "delay": _span(delay)}

    def reschedule(admin: Admin, ids: list[str]) -> Awaitable[int]:
        return admin.reschedule(ids, **change)

    _move(words, where, reschedule, "moved", as_json=as_json)


def _move(
    words: tuple[str, ...],
    where: dict[str, str | None],
    action: Callable[[Admin, list[str]], Awaitable[int]],
    done: str,
    *,
    as_json: bool,
) -> None:
    url, namespace = where["url"], where["namespace"]
    app, ids = split(words, where["app_option"], store_named=bool(url or namespace))
    if not ids:
        raise ConfigError("say which jobs: give their ids")
    count = acted(chosen_app(app, url, namespace), lambda admin: action(admin, ids))
    show_result(f"{plural(count, 'job')} {done}", {"moved": count}, as_json=as_json)
    if count < len(set(ids)):
        complain("the others are not waiting or scheduled (any more), or cannot be moved")
        click.get_current_context().exit(FAILED)


def _moment(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        return read_time(text)
    except ValueError:
        raise ConfigError(f"--at {text!r} is not an ISO time, such as 2030-01-31T09:00Z") from None


def _span(text: str | None) -> timedelta | None:
    if text is None:
        return None
    try:
        span = parse_since(text)
    except (ValueError, OverflowError):
        span = datetime.max
    if isinstance(span, datetime):
        raise ConfigError(f"--delay {text!r} is not a time such as 90s, 30m, 1h or 2d")
    return span
