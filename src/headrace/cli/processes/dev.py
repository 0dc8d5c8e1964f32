"""`headrace dev`: worker and dashboard for development, in one command."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

import click

from headrace.cli.app_loader import OF_ONE_PROCESS, is_of_one_process, load_app, one_app
from headrace.cli.log_colours import colours_wanted
from headrace.cli.output import harmless_lines
from headrace.cli.processes.dev_processes import DevProcesses
from headrace.cli.processes.local_address import LocalAddress, listen_beside, local_address
from headrace.cli.processes.store_option import wait_for_store_option
from headrace.core import bounds as limits
from headrace.core.display import harmless
from headrace.errors import ConfigError
from headrace.worker.processes.environment import DASHBOARD
from headrace.worker.processes.signals import DUMP, ProcessSignals, let_go_of_closed_terminal

_HOST = "127.0.0.1"
_TOKEN = f"{DASHBOARD}TOKEN"
_PATIENCE = "HEADRACE_WAIT_FOR_STORE"
# The longest time that any option takes: what waits is restarted before.
_FOR_EVER = str(limits.MAX_MS // 1000)
_LOOK_EVERY = 0.5
# A stuck worker ends by itself within this time after its drain.
_BEYOND_DRAIN = 20.0
_SOURCES = (".py",)
_PASSED_OVER = frozenset(("__pycache__", "node_modules", "site-packages", "venv"))
# More would take longer to check than the pause between two checks.
_MOST = 20_000


@click.command()
@click.argument("app", required=False)
@click.option("-A", "--app", "app_option", metavar="APP", help="App, as module:attribute.")
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    default=8370,
    show_default=True,
    metavar="N",
    help="Port of the dashboard, on this machine only.",
)
@click.option(
    "-c",
    "--concurrency",
    type=click.IntRange(min=1),
    default=limits.CONCURRENCY,
    show_default=True,
    metavar="N",
    help="Jobs at a time.",
)
@click.option(
    "--drain",
    type=float,
    default=5.0,
    show_default=True,
    metavar="SECONDS",
    help="Time for running jobs to end before a restart.",
)
@wait_for_store_option("for ever")
@click.option("--reload/--no-reload", default=True, help="Restart when a file has changed.")
def dev(
    app: str | None,
    app_option: str | None,
    port: int,
    concurrency: int,
    drain: float,
    wait_for_store: float | None,
    reload: bool,
) -> None:
    """Run APP, for example shop:app, during development: a worker with its schedules and the
    dashboard, both restarted whenever a Python file here changes.

    Needs no server: jobs are kept in ./headrace.db, unless the app or $HEADRACE_URL says otherwise.
    One Ctrl-C stops all, and so does closing the terminal.
    """
    name = one_app(app, app_option)
    if name is None:
        raise click.UsageError("say which app: headrace dev shop:app", click.get_current_context())
    store, folders = _checked(name)
    own_name = _check_port(port)
    # The same after each restart, so that users stay logged in.
    token = os.environ.get(_TOKEN) or secrets.token_urlsafe(24)
    patience = _FOR_EVER if wait_for_store is None else str(wait_for_store)
    settings = {_TOKEN: token, _PATIENCE: patience}
    missing = missing_parts()
    processes = dev_processes(name, port, concurrency, drain, settings, dashboard=not missing)
    click.echo(f"headrace dev: {name} on {harmless(store)}")
    if missing:
        said = f"there is no dashboard, it needs {missing}: pip install 'headrace[dashboard]'"
        click.echo(f"headrace dev: {said} (Ctrl-C stops the worker)")
    else:
        address = _address(port, token, own_name=own_name)
        click.echo(f"headrace dev: dashboard at {address.url} (Ctrl-C stops all)")
        if address.note:
            click.echo(f"headrace dev: {address.note}")
    with ProcessSignals() as signals:
        processes.start()
        try:
            _look_after(name, processes, signals, Sources(*folders) if reload else None)
        finally:
            let_go_of_closed_terminal()
            processes.stop()
    click.echo("headrace dev: all stopped")


def dev_processes(
    name: str,
    port: int,
    concurrency: int,
    drain: float,
    settings: Mapping[str, str] | None = None,
    *,
    dashboard: bool = True,
) -> DevProcesses:
    """A worker and, if wanted, a dashboard, not started yet; `settings` are variables for both."""
    commands = {
        "worker": ["worker", name, "-c", str(concurrency), "--drain", str(drain), "--log-runs"],
    }
    if dashboard:
        commands["dashboard"] = ["dashboard", name, "--host", _HOST, "--port", str(port)]
    return DevProcesses(
        commands,
        patience=drain + _BEYOND_DRAIN,
        settings=settings,
    )


def missing_parts() -> str:
    """The packages that the dashboard needs and that are not installed; empty if all are."""
    needed = ("starlette", "jinja2", "itsdangerous", "uvicorn")
    return " and ".join(name for name in needed if not _is_installed(name))


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ValueError:
        # Its import is forbidden in this process.
        return False


def _address(port: int, token: str, *, own_name: bool) -> LocalAddress:
    """The address of the dashboard, which depends on its own variables too."""
    has_users = bool(os.environ.get(f"{DASHBOARD}AUTH"))
    if os.environ.get(f"{DASHBOARD}SSL_CERTFILE"):
        asked = "" if has_users else f"?token={quote(token, safe='')}"
        return LocalAddress(f"https://{_HOST}:{port}/{asked}", "")
    if has_users:
        return LocalAddress(f"http://{_HOST}:{port}/", "")
    plain = f"http://{_HOST}:{port}/?token={quote(token, safe='')}"
    return local_address(plain, token, own_name=own_name)


def _checked(name: str) -> tuple[str, list[Path]]:
    """The store, and the folders to watch. Raises errors that would end both processes at once."""
    app = load_app(name)
    if is_of_one_process(app):
        raise ConfigError(f"{OF_ONE_PROCESS}, and this takes two: use the default, an SQLite file")
    names = (name.partition(":")[0], *app.modules)
    files = [getattr(sys.modules[each], "__file__", None) for each in names]
    return app.shown_url, [Path.cwd(), *(Path(file).parent for file in files if file)]


def _check_port(port: int) -> bool:
    """Whether the dashboard can have a name of its own: nobody else listens at any address that it
    leads to. `ConfigError` if the port is taken."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_HOST, port))
        except OSError:
            raise ConfigError(f"port {port} is taken: choose another with --port") from None
        beside = listen_beside(probe)
        if beside.socket is not None:
            beside.socket.close()
        return beside.is_ours


def _look_after(
    name: str, processes: DevProcesses, signals: ProcessSignals, sources: Sources | None
) -> None:
    """Restart the processes when files change, until a signal asks to stop."""
    while True:
        if any(number not in (signal.SIGCHLD, DUMP) for number in signals.wait(_LOOK_EVERY)):
            return
        for sentence in processes.ended():
            again = "; it starts again when a file changes" if sources else ""
            click.echo(f"headrace dev: {sentence}{again}")
        changed = sources.changed() if sources else []
        if changed:
            more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
            what = f"headrace dev: {harmless(changed[0].name)}{more} changed"
            if trouble := _trouble(name):
                _report(what, trouble)
                processes.stop("worker")
                continue
            click.echo(f"{what}, restarting")
            processes.stop()
            processes.start()


def _trouble(name: str) -> str:
    """Why the app cannot be loaded any more; empty if it can. In a process of its own: this one has
    loaded it already."""
    loading = subprocess.run(
        [sys.executable, "-m", "headrace.cli.app_loader", name],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="backslashreplace",
        check=False,
    )
    return loading.stderr.strip() or f"exit code {loading.returncode}" if loading.returncode else ""


def _report(what: str, trouble: str) -> None:
    """Say what is wrong with the code."""
    lines = [f"  {line}" for line in harmless_lines(trouble)]
    shown = click.style("\n".join(lines), fg="red") if colours_wanted() else "\n".join(lines)
    click.echo(f"{what}, and cannot be loaded:\n{shown}")
    click.echo("headrace dev: the dashboard stays, the worker starts again when a file changes")


class Sources:
    """The Python files below some folders, as of the last call. Compares name, time and size, which
    works on any file system."""

    def __init__(self, *folders: Path) -> None:
        self._folders = sorted({folder.resolve() for folder in folders})
        self._known = dict(self._stamps())

    def changed(self) -> list[Path]:
        """Files that are new, gone or different since the last call, by name."""
        now = dict(self._stamps())
        pairs = now.items() ^ self._known.items()
        self._known = now
        return sorted({path for path, _ in pairs})

    def _stamps(self) -> Iterator[tuple[Path, tuple[int, int]]]:
        found = 0
        for folder in self._folders:
            for root, folders, files in os.walk(folder):
                folders[:] = [name for name in folders if not _is_passed_over(name)]
                for name in files:
                    if not name.endswith(_SOURCES) or found >= _MOST:
                        continue
                    path = Path(root, name)
                    try:
                        stat = path.stat()
                    except OSError:
                        # Just being replaced: the next check finds it.
                        continue
                    found += 1
                    yield path, (stat.st_mtime_ns, stat.st_size)


def _is_passed_over(folder: str) -> bool:
    return folder.startswith(".") or folder in _PASSED_OVER
