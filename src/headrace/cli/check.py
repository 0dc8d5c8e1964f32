"""`headrace check`: is all well, and if not, what to do."""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING

import click

from headrace.cli.asking import asked, json_option, of_app
from headrace.cli.findings import Finding, Level, of_groups, of_queues, of_schedules, of_store
from headrace.cli.output import harmless, json_document
from headrace.core import limits
from headrace.core.plural import plural
from headrace.errors import StoreError

if TYPE_CHECKING:
    from headrace import Headrace

_MAX_AGE = 300.0


@click.command()
@of_app
@click.option(
    "--max-age",
    type=click.FloatRange(min=0.0),
    default=_MAX_AGE,
    show_default=True,
    metavar="SECONDS",
    help="A job that has waited for longer is a problem.",
)
@json_option
def check(app: Headrace, max_age: float, as_json: bool) -> None:
    """Say whether the store answers and jobs are taken care of; what is not well has a line that
    says what to do.

    Exit codes: 0 no problems (there may be warnings), 1 there are problems, 2 wrong use.
    """
    limits.check_seconds("--max-age", max_age, least=0)
    try:
        findings = asked(app, lambda app: _looked(app, max_age))
    except StoreError as error:
        advice = "; start it, or name another with --url" if error.retryable else ""
        findings = [Finding("problem", "store", f"{error}{advice}")]
    levels = Counter(finding.level for finding in findings)
    if as_json:
        json_document({"ok": not levels["problem"], "findings": findings})
    else:
        _show(findings, levels)
    sys.exit(1 if levels["problem"] else 0)


async def _looked(app: Headrace, max_age: float) -> list[Finding]:
    admin = app.admin
    workers = await admin.workers()
    return [
        *of_store(await admin.store()),
        *of_queues(await admin.queues(), workers, set(app.queues), max_age),
        *of_groups(await admin.topics(), workers, max_age),
        *of_schedules(await admin.schedules()),
    ]


def _show(findings: list[Finding], levels: Counter[Level]) -> None:
    for finding in findings:
        click.echo(harmless(f"{finding.level:<8} {finding.about}: {finding.text}"))
    said = plural(levels["problem"], "problem"), plural(levels["warning"], "warning")
    click.echo(", ".join(said) if levels["problem"] or levels["warning"] else "all is well")
