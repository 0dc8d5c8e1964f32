"""How dead jobs are printed: for people, and as JSON."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

import click

from headrace.cli.jobs.views import event_facts, received_text
from headrace.cli.output import Cells, counted, harmless, moment, shortened, show_attempts, table
from headrace.core.display import unread_text
from headrace.core.job.state import Reason

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.admin import DeadGroup, DeadGroups, DeadInfo

_BYTES_SHOWN = 64


def as_json_value(info: DeadInfo, *, whole: bool = False) -> dict[str, Any]:
    """The same keys in a list and alone; `whole` adds the original bytes."""
    value = {
        "id": info.id,
        "queue": info.queue,
        "task": info.task,
        "reason": info.reason,
        "died": info.died,
        "error_type": info.error_type,
        "error_text": info.error_text,
        "attempts": [asdict(attempt) for attempt in info.attempts],
        "arguments": info.arguments,
        "event": _event(info),
        "size": info.size,
        "unreadable": info.unreadable,
        "newer_format": info.newer_format,
    }
    if not whole:
        return value
    # Empty with redaction: the bytes hold all that is hidden.
    return {**value, "envelope": info.envelope or None}


def show_list(rows: Sequence[Cells]) -> None:
    if not rows:
        click.echo("no dead jobs")
        return
    table(("died", "queue", "id", "task", "reason", "attempts", "error"), rows)


def show_groups(found: DeadGroups) -> None:
    if not found.groups:
        click.echo("no dead jobs")
        return
    headings = ("count", "latest", "task", "reason", "error type", "place", "latest error")
    table(headings, [_group_row(group) for group in found.groups])
    for name, counts in (("by reason", found.by_reason), ("by error", found.by_error)):
        click.echo(f"{name}: {counted(counts)}" if counts else "")
    if not found.complete:
        click.echo(f"of the latest {found.looked}, of {found.total} dead jobs: see --scan")


def _group_row(group: DeadGroup) -> Sequence[str | int]:
    unread = unread_text(group.reason == Reason.NEWER_FORMAT)
    task = unread if group.task is None else group.task
    place, error = group.place or "-", shortened(group.error)
    return (
        group.count,
        moment(group.latest),
        task,
        group.reason,
        group.error_type or "-",
        place,
        error,
    )


def show_job(info: DeadInfo) -> None:
    for name, value in (
        ("id", info.id),
        ("queue", info.queue),
        ("task", unread_text(info.newer_format) if info.task is None else info.task),
        ("reason", info.reason),
        ("unreadable", ", ".join(info.unreadable) or None),
        ("died", moment(info.died)),
        *_facts(info),
        ("size", f"{info.size:,} bytes"),
    ):
        if value is not None:
            click.echo(f"{name:<11}{harmless(value)}")
    if info.arguments is None and info.envelope:
        click.echo(f"{'bytes':<11}{_hex(info.envelope)}")
    show_attempts(info.attempts, info.replays)
    if not info.attempts and info.error:
        click.echo(f"\n{harmless(info.error)}")


def row(info: DeadInfo) -> Cells:
    task = unread_text(info.newer_format) if info.task is None else info.task
    error = info.error.partition("\n")[0]
    if info.unreadable:
        error = f"(unreadable: {', '.join(info.unreadable)}) {error}".rstrip()
    died = moment(info.died)
    return died, info.queue, info.id, task, info.reason, info.attempt_count, error


def _event(info: DeadInfo) -> dict[str, Any] | None:
    """The facts of an event without its data, which is shown as the arguments."""
    event = info.event
    if event is None:
        return None
    return {each.name: getattr(event, each.name) for each in fields(event) if each.name != "data"}


def _facts(info: DeadInfo) -> list[tuple[str, str | None]]:
    event = info.event
    if event is None:
        return [("arguments", _arguments(info)), ("received", received_text(info))]
    headers = repr(event.headers) if event.headers else None
    return [*event_facts(event), ("headers", headers), ("event", _arguments(info))]


def _arguments(info: DeadInfo) -> str:
    if info.arguments is None:
        return unread_text(info.newer_format)
    return shortened(repr(info.arguments))


def _hex(data: bytes) -> str:
    return data[:_BYTES_SHOWN].hex(" ") + (" …" if len(data) > _BYTES_SHOWN else "")
