"""`headrace top` in a real terminal."""

from __future__ import annotations

import os
import pty
import re
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from headrace.cli import main
from tests.cli.programs import eventually

ENTERED, LEFT = b"\x1b[?1049h", b"\x1b[?1049l"


class Terminal:
    """A program in a terminal of its own: what it draws, and what is typed."""

    def __init__(self, *arguments: str) -> None:
        self.drawn = bytearray()
        self.pid, self._end = pty.fork()
        if self.pid == 0:
            os.environ["TERM"] = "xterm-256color"
            os.execv(sys.executable, [sys.executable, "-m", "headrace", *arguments])
        self._code: int | None = None
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        while True:
            try:
                piece = os.read(self._end, 65536)
            except OSError:
                # The other end is closed: the program has ended.
                return
            self.drawn += piece

    def types(self, *keys: str) -> None:
        for key in keys:
            os.write(self._end, key.encode())

    @property
    def text(self) -> str:
        """All that was drawn, without what steers the terminal and without blanks."""
        plain = re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]|\s", b"", bytes(self.drawn))
        return plain.decode(errors="replace")

    def shows(self, text: str) -> None:
        wanted = "".join(text.split())
        eventually(f"it shows {text!r}: {self.text[-500:]}", lambda: wanted in self.text)

    def ended(self) -> int:
        eventually("it ends", self._has_ended)
        assert self._code is not None
        self._listener.join()
        return self._code

    def _has_ended(self) -> bool:
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if pid:
            self._code = os.waitstatus_to_exitcode(status)
        return bool(pid)

    def close(self) -> None:
        if self._code is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self._end)


@contextmanager
def terminal(*arguments: str) -> Iterator[Terminal]:
    made = Terminal(*arguments)
    try:
        yield made
    finally:
        made.close()


def actions() -> str:
    result = CliRunner().invoke(main, ["actions", "shop:app"])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_queue_is_paused_at_the_keyboard_and_the_action_is_recorded(shop: Path) -> None:
    with terminal("top", "shop:app") as screen:
        screen.shows("0 workers")
        screen.types("p")
        screen.shows("Pause queue")
        screen.types("y")
        eventually("it is recorded", lambda: "pause" in actions())
        screen.types("q")
        assert screen.ended() == 0
        assert LEFT in screen.drawn
    assert "@" in actions()


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_signal_gives_the_terminal_back_as_it_was(shop: Path) -> None:
    with terminal("top", "shop:app") as screen:
        screen.shows("0 workers")
        assert ENTERED in screen.drawn
        os.kill(screen.pid, signal.SIGTERM)
        assert screen.ended() == 0, screen.text[-2000:]
        assert LEFT in screen.drawn


def test_without_a_terminal_it_says_what_to_use_instead(shop: Path) -> None:
    result = CliRunner().invoke(main, ["top", "shop:app"])
    assert result.exit_code == 2
    assert "needs a terminal: see 'headrace queues'" in result.stderr
