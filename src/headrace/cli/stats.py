"""`headrace stats`: what was done of late, by queue and task, and what is dead."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from headrace.cli.app_command import asked, json_option, of_app
from headrace.cli.output import counted, json_document, table
from headrace.core.display import length_text, plural

if TYPE_CHECKING:
    from headrace import Headrace
    from headrace.admin import DeadGroups, MinuteStats
    from headrace.admin.stats_sum import StatsSum

_KINDS = ("sent", "done", "retry", "deferred", "dead", "cancelled")
_HEADINGS = ("queue", "task", *_KINDS, "run p50", "run p95", "wait p50", "wait p95")
_MINUTES = 60
_DAY = 24 * 60

Sums = dict[tuple[str, str], "StatsSum"]


@click.command()
@of_app
@click.option("-q", "--queue", metavar="NAME", help="Only this queue.")
@click.option(
    "--minutes",
    type=click.IntRange(1, _DAY),
    default=_MINUTES,
    show_default=True,
    metavar="N",
    help="Of the last N minutes.",
)
@json_option
def stats(app: Headrace, queue: str | None, minutes: int, as_json: bool) -> None:
    """Count what was sent, done and failed of late, by queue and task, with how long runs took and
    had waited; and dead jobs by reason and by type of error."""

    async def ask(app: Headrace) -> tuple[list[MinuteStats], DeadGroups]:
        return await app.admin.stats(minutes, queue), await app.admin.dead_groups(queue)

    counted, dead = asked(app, ask)
    sums = _summed(counted)
    if as_json:
        json_document(_document(sums, dead, minutes))
        return
    if sums:
        table(_HEADINGS, [_row(queue, task, each) for (queue, task), each in sums.items()])
    else:
        click.echo(f"nothing was sent or run in the last {plural(minutes, 'minute')}")
    for line in _dead_lines(dead):
        click.echo(line)


def _summed(counted: Iterable[MinuteStats]) -> Sums:
    from headrace.admin.stats_sum import StatsSum

    sums: Sums = {}
    for each in counted:
        sums.setdefault((each.queue, each.task), StatsSum()).add(each)
    return dict(sorted(sums.items()))


def _row(queue: str, task: str, each: StatsSum) -> tuple[str | int, ...]:
    counts = (each.counts[kind] for kind in _KINDS)
    return (queue, task, *counts, *(_seconds(value) for value in _times(each).values()))


def _times(each: StatsSum) -> dict[str, float | None]:
    return {
        "run_p50": each.ran(50),
        "run_p95": each.ran(95),
        "wait_p50": each.waited(50),
        "wait_p95": each.waited(95),
    }


def _seconds(value: float | None) -> str:
    return "-" if value is None else length_text(value)


def _dead_lines(dead: DeadGroups) -> list[str]:
    if not dead.total:
        return []
    among = "" if dead.complete else f", of the latest {dead.looked}"
    lines = [f"\n{plural(dead.total, 'dead job')}{among}"]
    for name, counts in (("by reason", dead.by_reason), ("by error", dead.by_error)):
        if counts:
            lines.append(f"{name}: {counted(counts)}")
    return lines


def _document(sums: Sums, dead: DeadGroups, minutes: int) -> dict[str, Any]:
    return {
        "minutes": minutes,
        "tasks": [
            {"queue": queue, "task": task, **{kind: each.counts[kind] for kind in _KINDS}}
            | _times(each)
            for (queue, task), each in sums.items()
        ],
        "dead": {
            "total": dead.total,
            "looked": dead.looked,
            "by_reason": dead.by_reason,
            "by_error": dead.by_error,
        },
    }
