"""`headrace actions`: the audit log."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import click

from headrace.cli.app_command import asked, json_option, of_app
from headrace.cli.output import harmless, moment, show_table

if TYPE_CHECKING:
    from headrace import Headrace
    from headrace.admin import Action

_HEADINGS = ("when", "who", "from", "action", "target", "detail", "error")


@click.command()
@of_app
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, metavar="N")
@click.option(
    "--before", default="", metavar="ID", help="Only actions before the one with this id."
)
@json_option
def actions(app: Headrace, limit: int, before: str, as_json: bool) -> None:
    """Show what people did: paused, cancelled, replayed and so on, the latest first.

    Lists actions of this program, of the dashboard, and of code that uses app.admin.by. They are
    kept for 90 days, or for the app's actions_kept, and no more than 100,000.
    """
    found = asked(app, lambda app: app.admin.actions(limit + 1, before))
    shown = found[:limit]
    show_table(shown, _HEADINGS, _row, nothing="no actions yet", as_json=as_json)
    if len(found) > limit and not as_json:
        last = shlex.quote(harmless(shown[-1].id))
        click.echo(f"there are more: headrace actions --before {last}", err=True)


def _row(action: Action) -> tuple[str | int, ...]:
    said = "; ".join(filter(None, (action.detail, *action.changes)))
    error = action.error or ("" if action.finished else "not finished")
    return moment(action.at), action.actor, action.address, action.verb, action.target, said, error
