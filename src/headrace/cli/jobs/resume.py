"""`headrace jobs resume`: a flow goes on from where it failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from headrace.cli.app_command import acted, asked, json_option, of_words
from headrace.cli.app_loader import command
from headrace.cli.output import show_result
from headrace.core.display import plural
from headrace.core.job.state import State
from headrace.errors import ConfigError

if TYPE_CHECKING:
    from headrace import Headrace
    from headrace.admin import Admin


@click.command()
@of_words("id")
@json_option
def resume(app: Headrace, id: str, as_json: bool) -> None:
    """Resume a flow: replay those of its jobs that failed.

    ID is that of any job of the flow. Jobs that died with another wait again, and keep the results
    that they have.
    """
    asked(app, lambda app: _refuse_without_flow(app.admin, id))
    count = acted(app, lambda admin: admin.resume_flow(id))
    text = f"replayed {plural(count, 'job')}" if count else "no job of the flow has failed"
    show_result(text, {"replayed": count}, as_json=as_json)


async def _refuse_without_flow(admin: Admin, id: str) -> None:
    job = await admin.job(id)
    if job.flow:
        return
    what = f"{'event' if job.event else 'job'} {id} is in no flow"
    if job.state is State.DEAD:
        replay = command("dead", "replay", words=(id,))
        raise ConfigError(f"{what}: {replay} sends it again")
    raise ConfigError(f"{what}, and {job.state}: headrace dead replay sends dead ones again")
