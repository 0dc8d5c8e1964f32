"""`headrace deeds`: who did what."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from headrace.cli.asking import asked, json_option, of_app
from headrace.cli.output import moment, show_table

if TYPE_CHECKING:
    from headrace import Headrace
    from headrace.admin import DeedInfo

_HEADINGS = ("when", "who", "deed", "what", "detail", "error")


@click.command()
@of_app
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, metavar="N")
@json_option
def deeds(app: Headrace, limit: int, as_json: bool) -> None:
    """Show what people did: paused, cancelled, replayed and so on, the latest first.

    Deeds of this program, of the dashboard, and of code that says who acts with app.admin.by; of
    the last 30 days, and no more than the last 1,000.
    """
    found = asked(app, lambda app: app.admin.deeds(limit))
    show_table(found, _HEADINGS, _row, nothing="nothing was done", as_json=as_json)


def _row(deed: DeedInfo) -> tuple[str | int, ...]:
    return moment(deed.at), deed.actor, deed.verb, deed.target, deed.detail, deed.error or ""
