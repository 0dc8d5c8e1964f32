"""`headrace` as a process of its own, for tests of signals, exit codes and children."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests import forked

# Far beyond what anything here takes on a slow machine.
LONG = 90.0


def eventually(what: str, condition: Callable[[], object], within: float = LONG) -> None:
    """Wait until the condition holds."""
    ends_at = time.monotonic() + within
    while not condition():
        assert time.monotonic() < ends_at, f"not within {within:g} s: {what}"
        time.sleep(0.02)


def is_alive(pid: int) -> bool:
    """Whether the process runs; one that ended and was not waited for yet does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def run_headrace(
    folder: Path, *arguments: str, answer: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `headrace …` to its end. With an answer, its input is a terminal where that is typed."""
    command = ["-m", "headrace", *arguments]
    env = {k: v for k, v in os.environ.items() if not k.startswith("HEADRACE_")}
    if answer is None:
        return forked.run(*command, cwd=folder, env=env, timeout=LONG)
    ours, theirs = pty.openpty()
    try:
        os.write(ours, f"{answer}\n".encode())
        return forked.run(*command, cwd=folder, env=env, timeout=LONG, terminal=theirs)
    finally:
        os.close(ours)
        os.close(theirs)


class Program:
    """A running `headrace …` whose log can be waited for."""

    def __init__(
        self,
        folder: Path,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        through: Sequence[str] = (),
        terminal: int | None = None,
        python: str = sys.executable,
    ) -> None:
        """`through` is a program that starts it; with a `terminal` it has no log. Without them, and
        with this Python, it is forked."""
        self._log = folder / f"log-{time.monotonic_ns()}.txt"
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("HEADRACE_")}
        environment = {**inherited, **(env or {})}
        command = ["-m", "headrace", *arguments]
        self.process: subprocess.Popen[bytes] | forked.ForkedProgram
        with self._log.open("wb") as log:
            if not through and terminal is None and python == sys.executable:
                self.process = forked.start(
                    *command, cwd=folder, env=environment, output=log, session=True
                )
                return
            self.process = subprocess.Popen(
                [*through, python, *command],
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL if terminal is None else terminal,
                stdout=log if terminal is None else terminal,
                stderr=log if terminal is None else terminal,
                # A program that opens a terminal's session must not lead one.
                start_new_session=terminal is None,
            )

    @property
    def output(self) -> str:
        return self._log.read_text(errors="replace")

    @property
    def children(self) -> list[int]:
        """The worker processes that it has started so far."""
        return [int(pid) for pid in re.findall(r"worker process (\d+) started", self.output)]

    def says(self, text: str, times: int = 1) -> None:
        """Wait until its log holds the text."""

        def said() -> bool:
            ended = self.process.poll() is not None
            enough = self.output.count(text) >= times
            assert enough or not ended, f"it ended and never said {text!r}:\n{self.output}"
            return enough

        eventually(f"it says {text!r}", said)

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def ended(self) -> int:
        """Wait for its end; the exit code."""
        return self.process.wait(LONG)

    def clean_up(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(LONG)
        for pid in self.children:
            if is_alive(pid) and b"headrace" in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, signal.SIGKILL)
