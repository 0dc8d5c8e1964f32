"""`headrace dashboard`: show and control queues in a browser."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Sequence
from contextlib import AsyncExitStack, ExitStack
from functools import partial
from ipaddress import ip_address, ip_network
from types import FrameType
from typing import TYPE_CHECKING
from urllib.parse import quote

import click

from headrace.cli.app_command import of_app
from headrace.cli.logs import log_options, log_to_stderr
from headrace.cli.output import complain
from headrace.cli.processes.local_address import LocalAddress, listen_beside, local_address
from headrace.cli.processes.metrics_options import Place, metrics_options, place_of
from headrace.cli.processes.store_option import wait_for_store_option
from headrace.errors import ConfigError
from headrace.worker.processes.child_lifetime import follow_supervisor
from headrace.worker.processes.environment import DASHBOARD
from headrace.worker.processes.signals import ending_signals, let_go_of_closed_terminal
from headrace.worker.store_wait import StoppedWaiting, StoreWait

if TYPE_CHECKING:
    from headrace import Headrace
    from headrace.web.auth.users import Passwords
    from headrace.web.server import Certificate, DashboardServer

_USERS = f"{DASHBOARD}AUTH"
_PORT = click.IntRange(0, 65535)
_FILE = click.Path(dir_okay=False)


@click.command()
@of_app
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address to listen on. Any but this machine's own needs --auth.",
)
@click.option("--port", type=_PORT, default=8370, show_default=True, metavar="N")
@click.option(
    "--token",
    metavar="TEXT",
    help=f"Token to log in with if there is no --auth; made up by default. Better in "
    f"${DASHBOARD}TOKEN: other users of the machine can see options.",
)
@click.option(
    "--auth",
    "users",
    multiple=True,
    metavar="NAME:PASSWORD[:ROLE]",
    help=f"A user, as operator or viewer; may be repeated. Or in ${_USERS}, separated by spaces.",
)
@click.option("--insecure", is_flag=True, help="Let in everyone who can reach it, as operator.")
@click.option(
    "--ssl-certfile",
    type=_FILE,
    envvar=f"{DASHBOARD}SSL_CERTFILE",
    metavar="FILE",
    help="PEM certificate: serve over https.",
)
@click.option(
    "--ssl-keyfile",
    type=_FILE,
    envvar=f"{DASHBOARD}SSL_KEYFILE",
    metavar="FILE",
    help=f"Its key, if in another file. The key's password is in ${DASHBOARD}SSL_KEYFILE_PASSWORD.",
)
@click.option(
    "--proxy",
    "proxies",
    multiple=True,
    envvar=f"{DASHBOARD}PROXY",
    metavar="ADDRESS",
    help="Address of a proxy whose X-Forwarded-For and -Proto are trusted; may be repeated.",
)
@click.option(
    "--origin",
    "origins",
    multiple=True,
    envvar=f"{DASHBOARD}ORIGIN",
    metavar="URL",
    help="Public address, such as https://shop.example, if a proxy changes the Host header.",
)
@wait_for_store_option("not at all")
@metrics_options
@log_options
def dashboard(
    app: Headrace,
    host: str,
    port: int,
    token: str | None,
    users: tuple[str, ...],
    insecure: bool,
    ssl_certfile: str | None,
    ssl_keyfile: str | None,
    proxies: tuple[str, ...],
    origins: tuple[str, ...],
    wait_for_store: float | None,
    metrics_port: int | None,
    metrics_host: str | None,
    metrics_allow: tuple[str, ...],
    log_level: str | None,
    log_format: str | None,
) -> None:
    """Show and control the queues, jobs, topics and workers of APP, or of a store, in a browser.

    It prints the address to open. Only the user who starts it gets in, unless --auth names others.
    Ctrl-C ends it.
    """
    follow_supervisor()
    metrics = place_of(metrics_port, metrics_host, metrics_allow)
    auth = _passwords(users)
    _check(host, guarded=auth is not None, insecure=insecure, token=token, proxies=proxies)
    try:
        from headrace.web.server import DashboardServer
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"the dashboard needs {error.name}: pip install 'headrace[dashboard]'"
        ) from None
    log_to_stderr(log_level, log_format)
    server = DashboardServer(
        app,
        auth=auth,
        insecure=insecure,
        token=token,
        origins=origins,
        proxies=proxies,
        certificate=_certificate(ssl_certfile, ssl_keyfile),
    )
    scheme = "https" if ssl_certfile else "http"
    with ExitStack() as stack:
        listening = stack.enter_context(_listening(host, port))
        if metrics is not None:
            _serve_metrics(stack, app, metrics)
        if not ssl_certfile and not proxies and not _is_this_machine(host):
            _warn_of_plain_http(guarded=auth is not None)
        token = server.take_token()
        url = _url(scheme, host, listening, token)
        # By https a cookie goes only to who has the certificate: no other name is needed.
        local_token = token if scheme == "http" else None
        address, sockets = _addresses(stack, listening, url, local_token)
        click.echo(f"headrace dashboard: {address.url} (Ctrl-C ends it)")
        if address.note:
            click.echo(f"headrace dashboard: {address.note}")
        asyncio.run(_serve(server, app, sockets, wait_for_store or 0.0))
    let_go_of_closed_terminal()


async def _serve(
    server: DashboardServer, app: Headrace, listening: Sequence[socket.socket], patience: float
) -> None:
    """Serve until a signal, which also ends the wait for the store."""
    loop, stopping = asyncio.get_running_loop(), asyncio.Event()

    def end(number: int, frame: FrameType | None) -> None:
        server.handle_exit(number, frame)
        loop.call_soon_threadsafe(stopping.set)

    for number in ending_signals():
        # While it serves, the server sets its own handlers for some of them.
        signal.signal(number, end)
    async with AsyncExitStack() as stack:
        wait = StoreWait(patience, stopping, "the dashboard")
        try:
            await wait.through(partial(stack.enter_async_context, app))
        except StoppedWaiting:
            return
        await server.serve_at(listening)


def _addresses(
    stack: ExitStack, listening: socket.socket, url: str, token: str | None
) -> tuple[LocalAddress, list[socket.socket]]:
    """The address to open, and where to listen: with a token, also where the dashboard's own name
    leads to."""
    if token is None:
        return LocalAddress(url, ""), [listening]
    beside = listen_beside(listening)
    address = local_address(url, token, own_name=beside.is_ours)
    if beside.socket is None:
        return address, [listening]
    return address, [listening, stack.enter_context(beside.socket)]


def _certificate(certfile: str | None, keyfile: str | None) -> Certificate | None:
    from headrace.web.server import Certificate

    password = os.environ.get(f"{DASHBOARD}SSL_KEYFILE_PASSWORD") or None
    if certfile is None:
        if keyfile is not None:
            raise ConfigError("--ssl-keyfile is of no use without --ssl-certfile")
        return None
    return Certificate(certfile, keyfile, password)


def _warn_of_plain_http(*, guarded: bool) -> None:
    what = "passwords and sessions" if guarded else "all pages and actions"
    complain(
        f"warning: {what} go over plain http, where others can read and change them: give "
        "--ssl-certfile and --ssl-keyfile, or let a proxy serve it over https and name that with "
        "--proxy"
    )


def _passwords(given: tuple[str, ...]) -> Passwords | None:
    users = given or tuple(os.environ.get(_USERS, "").split())
    if not users:
        return None
    from headrace.web.auth.users import Passwords

    return Passwords(users)


def _check(
    host: str, *, guarded: bool, insecure: bool, token: str | None, proxies: tuple[str, ...]
) -> None:
    if guarded and insecure:
        raise ConfigError(f"give --auth (or {_USERS}), or --insecure, not both")
    if guarded or insecure:
        if token is not None:
            raise ConfigError("--token is of no use with --auth or --insecure: leave it out")
    elif not _is_this_machine(host):
        raise ConfigError(
            f"--host {host} lets others than this machine in: say who may with --auth "
            f"name:password (or {_USERS}), or --insecure to let in everyone"
        )
    elif proxies:
        raise ConfigError(
            f"--proxy lets others than this machine in: say who may with --auth name:password (or "
            f"{_USERS})"
        )
    for address in proxies:
        _check_proxy(address)


def _check_proxy(address: str) -> None:
    try:
        ip_network(address, strict=False)
    except ValueError:
        raise ConfigError(
            f"--proxy takes an address, such as 10.0.0.5, or a network, not {address!r}"
        ) from None


def _is_this_machine(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _listening(host: str, port: int) -> socket.socket:
    """A bound socket; `ConfigError` if the address cannot be used."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family)
    except OSError as error:
        # The error's own text repeats the address; an unknown name has no number.
        number = error.errno or 0
        reason = os.strerror(number) if number > 0 else str(error.strerror)
        raise ConfigError(
            f"cannot listen on {host} port {port}: {reason.lower()}; choose others with --host "
            "and --port"
        ) from None


def _serve_metrics(stack: ExitStack, app: Headrace, place: Place) -> None:
    try:
        from headrace.exposition.endpoints import fleet_server
    except ModuleNotFoundError as error:
        raise ConfigError(f"metrics need {error.name}: pip install 'headrace[metrics]'") from None
    exposition = fleet_server(app, *place)
    stack.callback(exposition.close)
    exposition.start()
    click.echo(f"headrace dashboard: metrics at {exposition.url}")


def _url(scheme: str, host: str, listening: socket.socket, token: str | None) -> str:
    port = listening.getsockname()[1]
    asked = f"?token={quote(token, safe='')}" if token is not None else ""
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}/{asked}"
