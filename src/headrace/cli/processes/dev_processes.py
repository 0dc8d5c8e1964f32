"""Several `headrace` commands at once, with their output in one terminal."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import IO

import click

from headrace.cli.log_colours import LogPainter, colours_wanted
from headrace.core.display import harmless
from headrace.worker.processes.child_lifetime import SUPERVISOR, how_it_ended

# To read the last output of an ended process: a child that inherited its pipe may keep it open.
_LAST_WORDS = 2.0


class DevProcesses:
    """Runs each command as a process, under a name for its output, with `settings` as further
    variables. One that does not end within `patience` seconds is killed."""

    def __init__(
        self,
        commands: Mapping[str, Sequence[str]],
        patience: float,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self._commands = commands
        self.patience = patience
        self._settings = {
            **(settings or {}),
            SUPERVISOR: str(os.getpid()),
            "PYTHONUNBUFFERED": "1",
        }
        self._running: dict[str, subprocess.Popen[str]] = {}
        self._readers: dict[str, threading.Thread] = {}

    def start(self) -> None:
        """Start those that do not run."""
        for name, arguments in self._commands.items():
            if name in self._running:
                continue
            process = subprocess.Popen(
                [sys.executable, "-m", "headrace", *arguments],
                env={**os.environ, **self._settings},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="backslashreplace",
                # Ctrl-C in the terminal is for the parent only.
                start_new_session=True,
            )
            self._running[name] = process
            if process.stdout is not None:
                self._print_output(name, process.stdout)

    def ended(self) -> list[str]:
        """A sentence for each process that has ended by itself since the last call."""
        sentences = []
        for name, process in list(self._running.items()):
            if (code := process.poll()) is not None:
                del self._running[name]
                sentences.append(f"the {name} {how_it_ended(code)}")
        return sentences

    def stop(self, *names: str) -> None:
        """Stop all processes, or those named, and wait for them."""
        leaving = {n: p for n, p in self._running.items() if not names or n in names}
        for process in leaving.values():
            process.send_signal(signal.SIGTERM)
        ends_at = time.monotonic() + self.patience
        for name, process in leaving.items():
            try:
                process.wait(max(0.0, ends_at - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            del self._running[name]
        ends_at = time.monotonic() + _LAST_WORDS
        for name in leaving:
            self._readers.pop(name).join(max(0.0, ends_at - time.monotonic()))

    def _print_output(self, name: str, output: IO[str]) -> None:
        width = max(map(len, self._commands))
        painter = LogPainter()

        def repeat() -> None:
            with output:
                for line in output:
                    # What a handler prints goes through here too.
                    shown = harmless(line.rstrip().expandtabs(8))
                    shown = painter.painted(shown) if colours_wanted() else shown
                    # Read on if the terminal is closed: the process must not block.
                    with contextlib.suppress(OSError):
                        click.echo(f"{name:<{width}} | {shown}")

        reader = threading.Thread(target=repeat, name=f"headrace-{name}", daemon=True)
        reader.start()
        self._readers[name] = reader
