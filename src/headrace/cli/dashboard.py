"""`headrace dashboard`: see and steer queues in a browser."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from contextlib import ExitStack
from ipaddress import ip_address
from typing import TYPE_CHECKING

import click

from headrace.cli.asking import of_app
from headrace.cli.logs import log_options, log_to_stderr
from headrace.cli.metrics import Place, metrics_options, place_of
from headrace.errors import ConfigError
from headrace.worker.parent import follow_supervisor
from headrace.worker.signals import ending_signals, let_go_of_closed_terminal

if TYPE_CHECKING:
    from headrace import Headrace
    from headrace.web.people import Passwords

_USERS = "HEADRACE_DASHBOARD_AUTH"
_PORT = click.IntRange(0, 65535)


@click.command()
@of_app
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address to listen at. Others than this machine's need --auth.",
)
@click.option("--port", type=_PORT, default=8370, show_default=True, metavar="N")
@click.option(
    "--auth",
    "users",
    multiple=True,
    metavar="NAME:PASSWORD[:ROLE]",
    help=f"Who may come in, as operator or viewer; several times, or in ${_USERS}, by spaces.",
)
@click.option("--insecure", is_flag=True, help="Let everyone in who can reach it, as operator.")
@metrics_options
@log_options
def dashboard(
    app: Headrace,
    host: str,
    port: int,
    users: tuple[str, ...],
    insecure: bool,
    metrics_port: int | None,
    metrics_host: str | None,
    log_level: str | None,
    log_format: str | None,
) -> None:
    """Show the queues, jobs, topics and workers of APP, or of a store, in a browser.

    They can be steered there, too. It serves this machine alone, unless it is told who may come in.
    Ctrl-C ends it.
    """
    follow_supervisor()
    metrics = place_of(metrics_port, metrics_host)
    auth = _passwords(users)
    _check_host(host, guarded=auth is not None, insecure=insecure)
    try:
        from headrace.web.serving import Server
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"the dashboard needs {error.name}: pip install 'headrace[dashboard]'"
        ) from None
    log_to_stderr(log_level, log_format)
    server = Server(app, auth=auth, insecure=insecure)
    with ExitStack() as stack:
        listening = stack.enter_context(_listening(host, port))
        if metrics is not None:
            _serve_metrics(stack, app, metrics)
        click.echo(f"headrace dashboard: {_url(host, listening)} (Ctrl-C ends it)")
        for number in ending_signals():
            # While it serves, the server sets those that it knows of anew.
            signal.signal(number, server.handle_exit)
        asyncio.run(server.serve_at(listening))
    let_go_of_closed_terminal()


def _passwords(given: tuple[str, ...]) -> Passwords | None:
    users = given or tuple(os.environ.get(_USERS, "").split())
    if not users:
        return None
    from headrace.web.people import Passwords

    return Passwords(users)


def _check_host(host: str, *, guarded: bool, insecure: bool) -> None:
    if guarded and insecure:
        raise ConfigError(f"give --auth (or {_USERS}), or --insecure, not both")
    if not guarded and not insecure and not _is_this_machine(host):
        raise ConfigError(
            f"--host {host} lets others than this machine in: say who may with --auth "
            f"name:password (or {_USERS}), or --insecure to let in everyone"
        )


def _is_this_machine(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _listening(host: str, port: int) -> socket.socket:
    """Bound here, so that what is wrong is told in one line."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family)
    except OSError as error:
        # The text of the error itself repeats the address; a name that is not known has no number.
        number = error.errno or 0
        reason = os.strerror(number) if number > 0 else str(error.strerror)
        raise ConfigError(
            f"cannot listen at {host} port {port}: {reason.lower()}; choose others with --host "
            "and --port"
        ) from None


def _serve_metrics(stack: ExitStack, app: Headrace, place: Place) -> None:
    try:
        from headrace.telemetry.serving import serve_fleet
    except ModuleNotFoundError as error:
        raise ConfigError(f"metrics need {error.name}: pip install 'headrace[metrics]'") from None
    exposition = serve_fleet(app, *place)
    stack.callback(exposition.close)
    exposition.start()
    click.echo(f"headrace dashboard: metrics at {exposition.url}")


def _url(host: str, listening: socket.socket) -> str:
    port = listening.getsockname()[1]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/"
