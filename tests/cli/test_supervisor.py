"""Several worker processes under one supervisor: its decisions, then real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.core.scaling.scaling import Scaling
from headrace.core.version import VERSION
from headrace.worker.processes.child_lifetime import STORE_LOST, SUPERVISOR
from headrace.worker.processes.supervisor import Supervisor
from tests.cli.conftest import Start
from tests.cli.programs import LONG, eventually, is_alive
from tests.servers import RedisServer


class Pretended:
    """A process that ends when the test says so."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.code: int | None = None
        self.signals: list[int] = []

    def poll(self) -> int | None:
        return self.code

    def send_signal(self, sig: int, /) -> None:
        self.signals.append(sig)


class Scene:
    """A supervisor of pretended processes, and a clock that the test moves."""

    def __init__(self, count: int, *, burst: bool = False) -> None:
        self.now = 1000.0
        self.started: list[Pretended] = []
        self.fails = False
        self.supervisor = Supervisor(
            Scaling(count, count), self._start, burst=burst, monotonic=lambda: self.now
        )

    def _start(self) -> Pretended:
        if self.fails:
            raise OSError("no more processes")
        self.started.append(Pretended(100 + len(self.started)))
        return self.started[-1]

    def step(self, after: float = 0.0) -> float | None:
        self.now += after
        return self.supervisor.step()

    def end(self, code: int, after: float = 0.0) -> float | None:
        """The latest process ends; what the supervisor makes of it."""
        self.now += after
        self.started[-1].code = code
        return self.step()


def test_it_starts_as_many_as_it_should_and_then_only_waits() -> None:
    scene = Scene(3)
    assert scene.step() is None
    assert scene.step(3600) is None
    assert len(scene.started) == 3


def test_a_process_that_died_is_replaced_after_a_pause_that_doubles() -> None:
    scene = Scene(1)
    scene.step()
    pauses = []
    for _ in range(4):
        pause = scene.end(-signal.SIGKILL, after=1.0)
        assert pause is not None
        pauses.append(pause)
        count = len(scene.started)
        scene.step(pause - 0.001)
        assert len(scene.started) == count
        assert scene.step(0.002) is None
    assert pauses == [1, 2, 4, 8]


def test_in_a_burst_a_process_that_has_ended_is_not_replaced() -> None:
    scene = Scene(2, burst=True)
    scene.step()
    assert scene.end(0) is None
    assert scene.supervisor.active == 1
    scene.started[0].code = -signal.SIGKILL
    pause = scene.step()
    assert pause is not None
    scene.step(pause)
    assert len(scene.started) == 3
    assert scene.end(1) is None
    assert (scene.supervisor.finished, scene.supervisor.exit_code) == (True, 1)


def test_after_five_quick_deaths_one_is_kept_going_and_if_it_lives_all_are(
    caplog: pytest.LogCaptureFixture,
) -> None:
    scene = Scene(2)
    scene.step()
    for _ in range(4):
        scene.step(scene.end(-signal.SIGKILL, after=1.0) or 0.0)
    scene.started[0].code = -signal.SIGKILL
    for pause in (16, 32, 60, 60):
        assert scene.end(-signal.SIGKILL, after=1.0) == pause
        assert scene.supervisor.active == 0
        count = len(scene.started)
        scene.step(pause)
        assert (len(scene.started), scene.supervisor.active) == (count + 1, 1)
    assert caplog.text.count("no other is started, and one is kept going") == 1
    assert scene.step(30) == 30
    assert scene.step(30) is None
    assert (len(scene.started), scene.supervisor.active) == (count + 2, 2)


def test_while_one_lives_others_are_tried_again_in_five_minutes() -> None:
    scene = Scene(2)
    scene.step()
    for _ in range(4):
        scene.step(scene.end(-signal.SIGKILL, after=1.0) or 0.0)
    assert scene.end(-signal.SIGKILL, after=1.0) == 300
    assert scene.supervisor.active == 1
    scene.started[0].code = -signal.SIGKILL
    assert scene.step(10) == 16
    scene.step(16)
    assert scene.supervisor.active == 1


def test_the_pause_is_short_again_after_a_minute_of_life() -> None:
    scene = Scene(1)
    scene.step()
    for _ in range(3):
        scene.step(scene.end(1, after=1.0) or 0.0)
    assert scene.end(1, after=60.0) == 1.0


def test_wrong_use_at_the_start_stops_all() -> None:
    scene = Scene(3)
    scene.step()
    scene.end(2, after=1.0)
    first, second, last = scene.started
    assert first.signals == second.signals == [signal.SIGTERM]
    first.code = second.code = 0
    scene.step()
    assert scene.supervisor.finished
    assert scene.supervisor.exit_code == 2
    assert last.signals == []


def test_code_2_is_a_trouble_like_others_once_the_command_has_worked() -> None:
    scene = Scene(2)
    scene.step()
    scene.step(scene.end(-signal.SIGKILL, after=60.0) or 0.0)
    # For example: the store is away just when the new process starts.
    assert scene.end(2, after=1.0) == 1.0
    assert not scene.supervisor.stopping


def test_nothing_is_started_after_the_stop() -> None:
    scene = Scene(2)
    scene.step()
    scene.end(1, after=1.0)
    scene.supervisor.stop()
    scene.step(3600)
    assert len(scene.started) == 2
    assert not scene.supervisor.finished
    scene.started[0].code = 0
    scene.step()
    assert scene.supervisor.finished


def test_a_second_stop_is_passed_on() -> None:
    scene = Scene(1)
    scene.step()
    scene.supervisor.stop()
    scene.supervisor.stop()
    assert scene.started[0].signals == [signal.SIGTERM, signal.SIGTERM]


@pytest.mark.parametrize(
    ("codes", "worst"),
    [
        ([0, 0], 0),
        ([0, 1], 1),
        ([1, 2], 2),
        ([3, 2], 3),
        ([0, -signal.SIGTERM], 0),
        ([0, -signal.SIGKILL], 2),
        ([120, 1], 2),
    ],
)
def test_the_worst_end_decides_the_exit_code(codes: list[int], worst: int) -> None:
    scene = Scene(len(codes))
    scene.step()
    scene.supervisor.stop()
    for process, code in zip(scene.started, codes, strict=True):
        process.code = code
    scene.step()
    assert scene.supervisor.finished
    assert scene.supervisor.exit_code == worst


def test_ends_before_the_stop_do_not_count() -> None:
    scene = Scene(1)
    scene.step()
    scene.step(scene.end(3, after=1.0) or 0.0)
    scene.supervisor.stop()
    scene.end(0)
    assert scene.supervisor.exit_code == 0


def test_a_system_that_refuses_processes_is_asked_again() -> None:
    scene = Scene(1)
    scene.fails = True
    assert scene.step() == 1.0
    assert scene.step(1.0) == 2.0
    scene.fails = False
    assert scene.step(2.0) is None
    assert len(scene.started) == 1


def test_a_process_whose_store_was_away_for_too_long_stops_all() -> None:
    scene = Scene(2)
    scene.step()
    scene.end(STORE_LOST, after=600.0)
    assert scene.started[0].signals == [signal.SIGTERM]
    scene.started[0].code = 0
    scene.step()
    assert (scene.supervisor.finished, scene.supervisor.exit_code) == (True, 2)
    assert len(scene.started) == 2


# Real processes


def test_sigterm_to_the_parent_ends_all_with_0(start: Start) -> None:
    parent = start("worker", "shop:app", "-p", "2")
    parent.says("runs default, mail\n", times=2)
    parent.says(f"headrace {VERSION}: 2 worker processes start on ")
    parent.says("each works on default, mail (")
    parent.send(signal.SIGTERM)
    assert parent.ended() == 0
    assert parent.output.count(", namespace ") == 1, "said once"
    assert "supervisor ended with exit code 0\n" in parent.output
    assert len(parent.children) == 2
    assert not any(map(is_alive, parent.children))


def test_children_are_out_of_reach_of_the_terminals_ctrl_c(start: Start) -> None:
    parent = start("worker", "shop:app", "-p", "2")
    parent.says("runs default, mail", times=2)
    assert {os.getsid(pid) for pid in parent.children} == set(parent.children)
    parent.send(signal.SIGINT)
    assert parent.ended() == 0


def test_a_killed_child_is_replaced(start: Start) -> None:
    parent = start("worker", "shop:app", "-p", "2")
    parent.says("runs default, mail", times=2)
    os.kill(parent.children[0], signal.SIGKILL)
    parent.says("was killed by SIGKILL")
    parent.says("runs default, mail", times=3)
    assert len([pid for pid in parent.children if is_alive(pid)]) == 2
    parent.send(signal.SIGTERM)
    assert parent.ended() == 0
    assert "supervisor ended with exit code 0; lost a process 1 time\n" in parent.output


def test_a_killed_parent_takes_its_children_along(start: Start) -> None:
    parent = start("worker", "shop:app", "-p", "2")
    parent.says("runs default, mail", times=2)
    parent.send(signal.SIGKILL)
    eventually("the children are gone", lambda: not any(map(is_alive, parent.children)))
    # They were told, and ended as on any SIGTERM.
    assert parent.output.count(" ended after ") == 2


def test_a_second_signal_reaches_the_children(start: Start, shop: Path) -> None:
    with (shop / "shop.py").open("a") as module:
        module.write(
            "\n@app.lifespan\nasync def life():\n"
            "    await hold.options(queue='default').enqueue('held')\n    yield\n"
        )
    parent = start("worker", "shop:app", "-p", "2", "--drain", "600")
    eventually("a job runs", (shop / "held").exists)
    parent.send(signal.SIGTERM)

    def hurried() -> bool:
        parent.send(signal.SIGTERM)
        return parent.process.poll() is not None

    eventually("all have ended", hurried)
    assert parent.ended() == 3


def test_an_app_that_the_children_cannot_use_ends_all_with_2(start: Start, shop: Path) -> None:
    with (shop / "shop.py").open("a") as module:
        module.write(
            "\nif Path('seen-by-the-parent').exists():\n"
            "    Headrace('memory://', namespace='not allowed')\n"
            "Path('seen-by-the-parent').touch()\n"
        )
    parent = start("worker", "shop:app", "-p", "2")
    assert parent.ended() == 2
    assert "giving up" in parent.output
    assert not any(map(is_alive, parent.children))


def test_a_store_that_is_away_for_too_long_ends_all_with_2(
    start: Start, redis_server: RedisServer
) -> None:
    settings = {"HEADRACE_URL": redis_server.url, "HEADRACE_MAX_RECONNECT": "1"}
    parent = start("worker", "shop:app", "-p", "2", **settings)
    parent.says("runs default, mail", times=2)
    redis_server.kill()
    assert parent.ended() == 2
    assert "ended, as its store was away for too long; giving up\n" in parent.output
    assert "max_reconnect=1 s" in parent.output
    assert not any(map(is_alive, parent.children))


def test_options_reach_the_children(start: Start) -> None:
    options = ("-Q", "a,b", "-c", "7", "--threads", "2", "--processes", "3", "--drain", "4.5")
    parent = start("worker", "shop:app", "-p", "2", *options, "--log-level", "debug")
    parent.says("runs a, b", times=2)
    given = Path(f"/proc/{parent.children[0]}/cmdline").read_bytes().decode().split("\0")
    assert {*options, "-p", "1", "--log-level", "debug"} <= set(given)
    parent.send(signal.SIGTERM)
    assert parent.ended() == 0


@pytest.fixture
def orphan(shop: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A worker process whose supervisor is gone before it could look."""
    with subprocess.Popen(
        [sys.executable, "-m", "headrace", "worker", "shop:app"],
        cwd=shop,
        env={**os.environ, SUPERVISOR: "1234567890"},
        stderr=subprocess.DEVNULL,
    ) as process:
        yield process
        process.kill()


def test_a_child_that_lost_its_parent_at_once_does_not_start(
    orphan: subprocess.Popen[bytes],
) -> None:
    assert orphan.wait(LONG) == 0
