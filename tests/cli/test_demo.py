"""`headrace demo` shows what it promises, leaves nothing behind, and says so when it does not."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from headrace.cli import main
from headrace.demo.acts import _check_trips
from headrace.demo.shop import Trip
from headrace.demo.stage import Look, Stage
from headrace.demo.workers import DemoWorkers, Show

DEMO = [sys.executable, "-m", "headrace", "demo"]
LONGEST = 180.0
COLUMNS = 80
ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def environment(home: Path, **more: str) -> dict[str, str]:
    """Settings of other apps must not reach the demo, nor may it leave anything in `home`."""
    others = {"HEADRACE_URL": "redis://nowhere.invalid", "HEADRACE_LEASE": "0.05"}
    mine = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "COLUMNS")}
    return {**mine, **others, "TMPDIR": str(home), **more}


def worker_pids(output: str) -> list[int]:
    found = re.search(r"worker processes (\d+) and (\d+) are up", output)
    assert found, output
    return [int(pid) for pid in found.groups()]


def assert_nothing_is_left(home: Path, output: str) -> None:
    assert list(home.iterdir()) == []
    for pid in worker_pids(output):
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def stage_without_terminal() -> Stage:
    return Stage(Look())


# As a person runs it


@pytest.mark.slow
def test_the_demo_shows_every_act_and_leaves_nothing_behind(tmp_path: Path) -> None:
    ended = subprocess.run(
        DEMO,
        check=False,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=LONGEST,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stderr == ""
    for fact in (
        r"ok 60 of 60 results came back",
        r"ok [\d.]+ s instead of 29 s: up to \d+ jobs ran at the same time",
        r"! attempt 1 failed: ConnectionError: the bank did not answer",
        r"ok attempt 2, 0.4 s later, succeeded",
        r"! attempt 2 failed: LookupError: no tax rate is known",
        r"ok the job is dead \(retries_exhausted\)",
        r"ok replayed, the job succeeds: 100.00 becomes 119.00",
        r"! worker (\d+) is killed with (\d+) of 16 jobs; (\d+) has the other",
        r"ok (\d+) of those \1 were taken over",
        r"ok 16 of 16 jobs are done, 0 were lost",
        r"ok it started \d+ ms after its time",
        r"ok await job.result\(\) gave an Invoice",
        r"80 jobs, 20 events, 6 retries, 1 replayed",
        r"headrace worker shop:app",
    ):
        assert re.search(fact, ended.stdout), f"{fact}\n{ended.stdout}"
    assert "FAILED" not in ended.stdout
    assert "\x1b" not in ended.stdout
    assert "\r" not in ended.stdout
    assert_nothing_is_left(tmp_path, ended.stdout)


@pytest.mark.slow
def test_in_a_terminal_there_are_colours_and_a_bar_that_moves(tmp_path: Path) -> None:
    code, output = in_a_terminal(environment(tmp_path, TERM="xterm-256color"))
    assert code == 0, output
    assert "\x1b[32m✓" in output
    bars = re.findall(r"\r\x1b\[K +[^\r\n]*?(\d+)/60", output)
    assert bars[-1] == "60"
    assert len(set(bars)) > 1
    assert "\x1b[?25l" in output
    assert output.rindex("\x1b[?25h") > output.rindex("\x1b[?25l")
    plain = ANSI.sub("", output)
    assert all(len(line) < COLUMNS for line in re.split(r"[\r\n]+", plain))
    assert_nothing_is_left(tmp_path, plain)


def in_a_terminal(env: dict[str, str]) -> tuple[int, str]:
    """The demo's exit code, and everything it wrote to a terminal of its own."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
    process = subprocess.Popen(DEMO, env=env, stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    written = bytearray()
    try:
        while chunk := _read(master):
            written += chunk
        return process.wait(LONGEST), written.decode()
    finally:
        os.close(master)
        process.kill()
        process.wait()


def _read(master: int) -> bytes:
    try:
        return os.read(master, 65536)
    except OSError:
        # Linux answers so once the other side is closed; elsewhere the read is empty.
        return b""


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Tests that run in the background of a shell ignore SIGINT, and so would what they start."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_broken_off_it_ends_its_workers_and_leaves_nothing(
    number: signal.Signals, tmp_path: Path
) -> None:
    with subprocess.Popen(
        DEMO, env=environment(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        head = process.stdout.readline() + process.stdout.readline()
        process.send_signal(number)
        output, _ = process.communicate(timeout=LONGEST)
    assert process.returncode == 1
    assert "All of it happened" not in output
    assert_nothing_is_left(tmp_path, head)


# What it says when something is wrong


def test_a_worker_that_cannot_start_fails_the_demo_and_its_last_words_are_shown(
    tmp_path: Path,
) -> None:
    program = (
        "from headrace.cli import demo\n"
        "from headrace.demo import workers\n"
        "workers.COMMAND = (workers.sys.executable, '-c', 'raise SystemExit(\"no engine\")')\n"
        "demo.demo()"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program],
        check=False,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=LONGEST,
    )
    assert ended.returncode == 1
    assert re.search(r"FAILED the demo broke off: worker process \d+ ended with", ended.stdout)
    assert "no engine" in ended.stdout
    assert "All of it happened" not in ended.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("holds", "code"), [(True, 0), (False, 1)])
def test_the_exit_code_says_whether_all_checks_held(
    holds: bool, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def perform(stage: Stage, _: Path) -> None:
        stage.check(holds, "water runs downhill")

    monkeypatch.setattr("headrace.demo.performance._play", perform)
    monkeypatch.setattr("headrace.demo.performance._move_to", lambda _: None)
    assert CliRunner().invoke(main, ["demo"]).exit_code == code


Spoil = Callable[[list[Trip]], list[Trip]]


@pytest.mark.parametrize(
    ("spoil", "failures"),
    [
        pytest.param(lambda trips: trips, 0, id="as it should be"),
        pytest.param(lambda trips: trips[:-1], 1, id="one lost"),
        pytest.param(lambda trips: [*trips[:-1], trips[5]], 1, id="one twice, one lost"),
        pytest.param(lambda trips: [Trip(0, 7, 1), *trips[1:]], 1, id="not taken over"),
        pytest.param(lambda trips: [Trip(0, 8, 2), *trips[1:]], 1, id="by someone else"),
    ],
)
def test_the_check_of_the_killed_worker_sees_what_is_wrong(
    spoil: Spoil, failures: int, tmp_path: Path
) -> None:
    show = Show(stage_without_terminal(), DemoWorkers(tmp_path))
    orphans = {0, 1, 2}
    trips = [Trip(parcel, 7, 2 if parcel in orphans else 1) for parcel in range(16)]
    _check_trips(show, spoil(trips), orphans, 7)
    assert len(show.stage.failures) == failures


def test_a_kill_that_hit_no_job_shows_nothing_and_fails(tmp_path: Path) -> None:
    show = Show(stage_without_terminal(), DemoWorkers(tmp_path))
    _check_trips(show, [Trip(parcel, 7, 1) for parcel in range(16)], set(), 7)
    assert len(show.stage.failures) == 1


# The stage


def test_a_failed_check_is_red_and_kept_with_its_act(capsys: pytest.CaptureFixture[str]) -> None:
    stage = Stage(Look(live=True, colour=True))
    stage.act("Gravity", "Things fall.")
    stage.check(False, "the apple fell")
    assert stage.failures == ["act 1: the apple fell"]
    assert "\x1b[31m✗" in capsys.readouterr().out


def test_without_colour_a_bar_is_still_drawn_in_place(capsys: pytest.CaptureFixture[str]) -> None:
    stage = Stage(Look(live=True, colour=False))
    stage.bar(1, 2, "half")
    stage.bar(1, 2, "half")
    stage.check(True, "done")
    assert capsys.readouterr().out == (
        f"\r\x1b[K     {'━' * 16}{'┄' * 16}  half\r\x1b[K     ✓ done\n"
    )


def test_a_text_that_is_too_long_hangs_below_its_beginning(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Stage(Look(live=True, width=40)).fact("one two three four five six seven eight nine ten")
    assert capsys.readouterr().out.splitlines() == [
        "     · one two three four five six seven",
        "       eight nine ten",
    ]


def test_where_only_ascii_can_be_shown_nothing_else_is(capsys: pytest.CaptureFixture[str]) -> None:
    stage = Stage(Look(live=True, colour=False, symbols=False))
    stage.bar(1, 2, "half")
    stage.check(True, "caf\N{LATIN SMALL LETTER E WITH ACUTE}")
    assert capsys.readouterr().out.isascii()
