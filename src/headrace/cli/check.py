"""`headrace check`: what is wrong, and what to do about it."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import click

from headrace.cli.app_command import asked, json_option, named_app, of_app
from headrace.cli.app_loader import command, reading
from headrace.cli.output import harmless, json_document
from headrace.cli.topics.views import stopped_text
from headrace.core import bounds as limits
from headrace.core.display import plural
from headrace.core.queue_names import group_queue
from headrace.errors import StoreError, StoreUnavailable

if TYPE_CHECKING:
    from headrace import Headrace
    from headrace.admin import GroupInfo, QueueInfo, StoreInfo, TopicInfo, WorkerInfo
    from headrace.client.schedule import Schedule

Level = Literal["ok", "warning", "problem"]

# Schedules, delays and expiry go by the store's clock; people read this machine's.
_CLOCK = 1.0
_MAX_AGE = 300.0


@dataclass(frozen=True, slots=True)
class Finding:
    """One result. Only problems make the check fail."""

    level: Level
    about: str
    text: str


@click.command()
@of_app
@click.option(
    "--max-age",
    type=click.FloatRange(min=0.0),
    default=_MAX_AGE,
    show_default=True,
    metavar="SECONDS",
    help="Report a problem if a job has waited for longer.",
)
@json_option
def check(app: Headrace, max_age: float, as_json: bool) -> None:
    """Check that the store answers and that jobs are run. Each problem has a line that says what to
    do.

    Exit codes: 0 no problems (there may be warnings), 1 there are problems, 2 wrong usage.
    """
    limits.check_seconds("--max-age", max_age, least=0)
    try:
        findings = asked(app, lambda app: _findings(app, max_age))
    except StoreError as error:
        away = isinstance(error, StoreUnavailable) and error.retryable
        advice = "; start it, or name another with --url" if away else ""
        findings = [Finding("problem", "store", f"{error}{advice}")]
    levels = Counter(finding.level for finding in findings)
    if as_json:
        json_document({"ok": not levels["problem"], "findings": findings})
    else:
        _show(findings, levels)
    sys.exit(1 if levels["problem"] else 0)


async def _findings(app: Headrace, max_age: float) -> list[Finding]:
    admin = app.admin
    workers = await admin.workers()
    return [
        *of_store(await admin.store()),
        *of_queues(await admin.queues(), workers, dict.fromkeys(app.queues, named_app()), max_age),
        *of_groups(await admin.topics(), workers, max_age),
        *of_schedules(await admin.schedules()),
    ]


def _show(findings: list[Finding], levels: Counter[Level]) -> None:
    for finding in findings:
        click.echo(harmless(f"{finding.level:<8} {finding.about}: {finding.text}"))
    said = plural(levels["problem"], "problem"), plural(levels["warning"], "warning")
    click.echo(", ".join(said) if levels["problem"] or levels["warning"] else "all is well")


def of_store(store: StoreInfo) -> Iterator[Finding]:
    answer = f"{store.kind} {store.version} at {store.url} answers in {store.seconds * 1000:.1f} ms"
    yield Finding("ok", "store", answer)
    for risk in store.risks:
        yield Finding("warning", "store", risk)
    for unread in store.unread:
        # No warning: the user has the rights that the docs advise.
        yield Finding("ok", "store", unread)
    if abs(store.ahead) > _CLOCK:
        way = "ahead of" if store.ahead > 0 else "behind"
        yield Finding(
            "warning",
            "clock",
            f"the store's clock is {abs(store.ahead):.1f} s {way} this one: set both by NTP",
        )


def of_queues(
    queues: Sequence[QueueInfo],
    workers: Sequence[WorkerInfo],
    declared: Mapping[str, str | None],
    max_age: float,
) -> Iterator[Finding]:
    """`declared` are those of an app, by name, and how the user has named the app: a worker should
    read each of them."""
    for queue in queues:
        readers = [worker for worker in workers if queue.name in worker.queues]
        found = [*_of_readers(queue, readers, declared), *_of_queue(queue, bool(readers), max_age)]
        about = f"queue {queue.name}"
        yield from (Finding(level, about, text) for level, text in found)
        if not found:
            text = f"{plural(len(readers), 'worker')}, {queue.waiting} waiting"
            yield Finding("ok", about, text)


def _of_readers(
    queue: QueueInfo, readers: Sequence[WorkerInfo], declared: Mapping[str, str | None]
) -> Iterator[tuple[Level, str]]:
    if readers or not (queue.waiting or queue.name in declared):
        return
    jobs = f"{plural(queue.waiting, 'job')} waiting and " if queue.waiting else ""
    level: Level = "problem" if queue.waiting else "warning"
    yield level, f"{jobs}no worker reads it: {reading(queue.name, declared.get(queue.name))}"


def _of_queue(queue: QueueInfo, is_read: bool, max_age: float) -> Iterator[tuple[Level, str]]:
    if queue.paused:
        yield "warning", f"paused: {command('queues', 'resume', words=(queue.name,))}"
    for task in queue.paused_tasks:
        resume = command("queues", "resume", words=(queue.name,), task=task)
        yield "warning", f"task {task} is paused: {resume}"
    if is_read and not queue.paused and (queue.age or 0.0) > max_age:
        yield (
            "problem",
            f"a job has waited for {queue.age:.0f} s: run more workers, or ask why with "
            "headrace jobs why",
        )
    if queue.dead:
        yield (
            "warning",
            f"{plural(queue.dead, 'dead job')}: {command('dead', 'list', queue=queue.name)}",
        )


def of_groups(
    topics: Sequence[TopicInfo], workers: Sequence[WorkerInfo], max_age: float
) -> Iterator[Finding]:
    served = {queue.partition("#")[0] for worker in workers for queue in worker.queues}
    for topic in topics:
        for group in topic.groups:
            name = group_queue(topic.name, group.name)
            found = list(_of_group(name, group, name in served, max_age))
            yield from (Finding(level, f"group {name}", text) for level, text in found)
            if not found:
                yield Finding("ok", f"group {name}", f"lag {group.lag}")


def _of_group(
    name: str, group: GroupInfo, is_served: bool, max_age: float
) -> Iterator[tuple[Level, str]]:
    if not is_served:
        level: Level = "problem" if group.waiting else "warning"
        yield (
            level,
            f"{plural(group.waiting, 'event')} waiting and no worker serves it: run one, or "
            "remove the group",
        )
    elif not group.paused and group.waiting and (group.age or 0.0) > max_age:
        yield "problem", f"an event is {group.age:.0f} s old and not handled: run more workers"
    if group.paused:
        yield "warning", f"paused: {command('queues', 'resume', words=(name,))}"
    if group.stopped_keys:
        keys = command("topics", "keys", words=(name.partition("@")[2], group.name))
        yield "problem" if group.stopped_events else "warning", f"{stopped_text(group)}: {keys}"
    if group.dead:
        listed = command("dead", "list", queue=name)
        yield "warning", f"{plural(group.dead, 'dead event')}: {listed}"


def of_schedules(schedules: Sequence[Schedule]) -> Iterator[Finding]:
    for schedule in schedules:
        if schedule.problem:
            text = f"it does not fire: {schedule.problem}"
            yield Finding("problem", f"schedule {schedule.name}", text)
        elif schedule.paused:
            text = f"paused: {command('schedules', 'resume', words=(schedule.name,))}"
            yield Finding("warning", f"schedule {schedule.name}", text)
