"""Python programs that begin at once: forked from a process that has imported Headrace already.

A program that is started imports hundreds of modules before it does anything, which takes more of a
processor than what most tests have it do; when it ends, it takes them apart. Where a start itself
is tried, or what Python does last, use `subprocess`."""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

ROOT = Path(__file__).parents[1]
# What most programs import sooner or later. None starts a thread, which a fork would lose.
WARM = (
    "asyncio",
    "headrace.benchmark",
    "headrace.cli.processes.worker",
    "headrace.store.redis.store",
    "headrace.store.sqlite.store",
    "headrace.testing",
    "redis.asyncio",
    "uvloop",
)


class ForkedProgram:
    """A program that has been started, as `subprocess.Popen` has it."""

    def __init__(self, pid: int, exit_code: socket.socket) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._exit_code = exit_code

    def poll(self) -> int | None:
        return self._look(0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._look(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(f"forked program {self.pid}", timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _look(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._exit_code], [], [], timeout)[0]:
            answer = self._exit_code.recv(16)
            assert answer, "the process that forks programs is gone"
            self.returncode = int(answer)
            self._exit_code.close()
        return self.returncode


def start(
    *arguments: str,
    cwd: Path,
    env: Mapping[str, str],
    output: IO[bytes] | None = None,
    errors: IO[bytes] | None = None,
    session: bool = False,
    terminal: int | None = None,
) -> ForkedProgram:
    """Start `python arguments…`, without input unless it has a `terminal`, a file descriptor.
    Without `output` it prints where this process does; without `errors`, all goes to the output.
    With `session` it leads a session of its own."""
    order = {"arguments": arguments, "cwd": str(cwd), "env": dict(env), "session": session}
    mine, theirs = socket.socketpair()
    with theirs, open(os.devnull, "rb") as nothing:
        read = nothing.fileno() if terminal is None else terminal
        printed = output.fileno() if output else 1
        files = [read, printed, errors.fileno() if errors else printed, theirs.fileno()]
        pid = _forker().ask(order, files)
    return ForkedProgram(pid, mine)


def run(
    *arguments: str,
    cwd: Path,
    env: Mapping[str, str],
    timeout: float,
    terminal: int | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run `python arguments…` to its end, and keep what it prints."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        program = start(
            *arguments, cwd=cwd, env=env, output=output, errors=errors, terminal=terminal
        )
        try:
            code = program.wait(timeout)
        finally:
            program.kill()
        said = []
        for file in (output, errors):
            file.seek(0)
            said.append(file.read().decode())
    return subprocess.CompletedProcess(arguments, code, *said)


class Forker:
    """The warm process, and the way to it."""

    def __init__(self) -> None:
        mine, theirs = socket.socketpair()
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.forked", str(theirs.fileno())],
                cwd=ROOT,
                env=inherited,
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
        self._way = mine
        self._turn = threading.Lock()

    def ask(self, order: Mapping[str, Any], files: list[int]) -> int:
        """The pid of the program that it has forked."""
        text = json.dumps(order).encode() + b"\n"
        with self._turn:
            sent = socket.send_fds(self._way, [text], files)
            self._way.sendall(text[sent:])
            answer = self._way.recv(16)
        assert answer, "the process that forks programs has died"
        return int(answer)

    def end(self) -> None:
        self._way.close()
        self._process.wait(60)


@functools.cache
def _forker() -> Forker:
    """One for all tests of this process."""
    forker = Forker()
    atexit.register(forker.end)
    return forker


# From here on: the warm process, and what becomes a program in it.


class _Order(NamedTuple):
    arguments: list[str]
    cwd: str
    env: dict[str, str]
    session: bool


def _take_orders(way: socket.socket) -> _Order:
    """Fork for each order. Returns in the new process, with its files in place of this one's;
    ends when nobody is left to give one."""
    woken, wake = socket.socketpair()
    for end in (woken, wake):
        end.setblocking(False)
    signal.set_wakeup_fd(wake.fileno())
    signal.signal(signal.SIGCHLD, lambda *_: None)
    # A Ctrl-C in the terminal is for pytest.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    exit_codes: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([way, woken], [], [])
        if woken in ready:
            woken.recv(1024)
            _report_ends(exit_codes)
        if way not in ready:
            continue
        text, files, _, _ = socket.recv_fds(way, 1 << 20, 4)
        if not text:
            sys.exit()
        while not text.endswith(b"\n"):
            text += way.recv(1 << 20)
        pid = os.fork()
        if not pid:
            break
        exit_codes[pid] = files.pop()
        for file in files:
            os.close(file)
        way.sendall(str(pid).encode())
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for end in (way, woken, wake):
        end.close()
    for number, file in enumerate(files):
        os.dup2(file, number)
    for file in (*files, *exit_codes.values()):
        os.close(file)
    return _Order(**json.loads(text))


def _report_ends(exit_codes: dict[int, int]) -> None:
    while exit_codes:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        listener = exit_codes.pop(pid)
        with contextlib.suppress(BrokenPipeError):
            os.write(listener, str(os.waitstatus_to_exitcode(status)).encode())
        os.close(listener)


def _become(order: _Order) -> None:
    """Run the program as if Python had just been started with it."""
    if order.session:
        os.setsid()
    os.chdir(order.cwd)
    os.environ.clear()
    os.environ.update(order.env)
    if order.env.get("PYTHONUNBUFFERED"):
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    arguments = order.arguments
    if arguments[:2] == ["-W", "error"]:
        arguments = arguments[2:]
        warnings.simplefilter("error")
    paths = [path for path in order.env.get("PYTHONPATH", "").split(os.pathsep) if path]
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        sys.path[:1] = [order.cwd, *paths]
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        script = Path(sys.argv[0]).resolve()
        sys.path[:1] = [str(script.parent), *paths]
        runpy.run_path(str(script), run_name="__main__")


class _Ending:
    """Leaves a process once its threads have ended and all else that runs at an exit has run. What
    is left for Python is to take apart each module, by far the most that a short program does."""

    def __init__(self) -> None:
        # None: Python itself says why it ends, and with which code.
        self._code: object = None
        # What is registered first runs last.
        atexit.register(self._leave)

    def run(self, order: _Order) -> None:
        try:
            _become(order)
        except SystemExit as ended:
            self._code = ended.code
            raise
        self._code = 0

    def _leave(self) -> None:
        if isinstance(self._code, int):
            # What was forgotten, such as a coroutine that nobody awaits, says so.
            gc.collect()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(self._code)


if __name__ == "__main__":
    ending = _Ending()
    way = socket.socket(fileno=int(sys.argv[1]))
    for name in WARM:
        importlib.import_module(name)
    gc.freeze()
    ending.run(_take_orders(way))
