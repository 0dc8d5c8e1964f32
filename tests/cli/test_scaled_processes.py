"""`-p 1..8`: as many worker processes as the backlog calls for."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace import Headrace
from headrace.core.scaling.scaling import Scaling
from headrace.core.workers import Scaled, WorkerRecord
from headrace.worker.processes.gauge import Gauge
from headrace.worker.processes.supervisor import Supervisor
from headrace.worker.upkeep.workload import QueueLoad, Workload, WorkloadSurvey
from tests.cli.conftest import Start
from tests.cli.programs import eventually
from tests.cli.test_supervisor import Pretended

JOBS = Workload("jobs", ("default",), 10)


def record(pid: int, running: int, host: str = "", concurrency: int = 10) -> WorkerRecord:
    host = host or socket.gethostname()
    return WorkerRecord(
        f"{host}-{pid}", host, pid, 0, {"default": 1}, concurrency, "", "", running, 0
    )


class Told:
    """A gauge of which the test says what it reads."""

    slots_each = 10

    def __init__(self) -> None:
        self.surveys: list[WorkloadSurvey | None] = []
        self.processes: Scaled | None = None

    def start(self, wake: Callable[[], None]) -> None: ...

    def take(self) -> list[WorkloadSurvey | None]:
        surveys, self.surveys = self.surveys, []
        return surveys

    def report(self, processes: Scaled) -> None:
        self.processes = processes

    def stop(self) -> None: ...


class Scene:
    """A supervisor of pretended processes that does at once what is called for."""

    def __init__(self, least: int = 1, most: int = 8) -> None:
        self.now = 1000.0
        self.gauge = Told()
        self.started: list[Pretended] = []
        self.supervisor = Supervisor(
            Scaling(least, most, hysteresis=0, cooldown=0),
            self._start,
            gauge=self.gauge,
            monotonic=lambda: self.now,
        )
        self.supervisor.step()

    def _start(self) -> Pretended:
        self.now += 0.001
        self.started.append(Pretended(100 + len(self.started)))
        return self.started[-1]

    def read(self, waiting: int, *workers: WorkerRecord, running: int = 0) -> None:
        """The gauge brings a survey."""
        self.gauge.surveys.append(WorkloadSurvey({JOBS: QueueLoad(waiting, running)}, workers))
        self.supervisor.step()

    @property
    def stopping(self) -> set[int]:
        """Processes that were asked to stop."""
        return {process.pid for process in self.started if process.signals}


def test_it_begins_with_the_least_and_goes_straight_to_what_the_backlog_calls_for() -> None:
    scene = Scene(2, 8)
    assert len(scene.started) == 2
    scene.read(95)
    assert len(scene.started) == 5
    scene.read(10_000)
    assert len(scene.started) == 8


def test_the_idlest_are_asked_to_stop_first_and_the_youngest_of_those() -> None:
    scene = Scene()
    scene.read(75)
    assert scene.supervisor.active == 4
    held = [record(100, 0), record(101, 7), record(102, 0), record(103, 5)]
    scene.read(0, *held, running=12)
    assert scene.stopping == {102, 100}
    assert scene.supervisor.active == 2


def test_records_of_other_hosts_are_not_taken_for_our_processes() -> None:
    scene = Scene()
    scene.read(35)
    foreign = record(101, 0, host="elsewhere", concurrency=0)
    scene.read(0, record(100, 0), record(101, 8), foreign, running=8)
    assert scene.stopping == {100}


def test_one_that_was_asked_to_stop_is_awaited_and_its_exit_code_counts() -> None:
    scene = Scene()
    scene.read(35)
    scene.read(0, record(100, 1))
    leaving = scene.started[1]
    assert leaving.signals == [signal.SIGTERM]
    scene.supervisor.stop()
    scene.started[0].code = 0
    scene.supervisor.step()
    # The second signal would have cut its jobs short.
    assert leaving.signals == [signal.SIGTERM]
    assert scene.supervisor.exit_code == 0
    leaving.code = 3
    scene.supervisor.step()
    assert scene.supervisor.finished
    assert scene.supervisor.exit_code == 3


def test_a_second_stop_hurries_those_that_leave_too() -> None:
    scene = Scene()
    scene.read(35)
    scene.read(0, record(100, 1))
    scene.supervisor.stop()
    scene.supervisor.stop()
    assert [process.signals for process in scene.started] == [[signal.SIGTERM] * 2] * 2


def test_one_that_left_is_not_replaced() -> None:
    scene = Scene()
    scene.read(35)
    scene.read(0)
    next(p for p in scene.started if p.signals).code = 0
    assert scene.supervisor.step() is None
    assert (scene.supervisor.active, len(scene.started)) == (1, 2)
    assert scene.supervisor.breaker.deaths == 0


def test_dead_processes_are_not_counted_and_are_the_first_to_go() -> None:
    scene = Scene()
    scene.read(55)
    assert scene.supervisor.active == 3
    scene.started[0].code = -signal.SIGKILL
    scene.supervisor.step()
    assert scene.supervisor.active == 2
    scene.read(0, record(101, 8), record(102, 8), running=16)
    assert scene.stopping == set()
    scene.now += 3600
    assert scene.supervisor.step() is None
    assert len(scene.started) == 3


def test_a_store_that_is_away_changes_nothing() -> None:
    scene = Scene()
    scene.read(95)
    scene.gauge.surveys.append(None)
    scene.supervisor.step()
    assert (scene.supervisor.active, scene.stopping) == (5, set())


def test_workers_elsewhere_take_their_share_of_the_backlog() -> None:
    scene = Scene()
    scene.read(95, record(1, 0, host="elsewhere", concurrency=90), record(100, 0))
    assert len(scene.started) == 1


def test_the_record_of_a_process_that_was_killed_takes_no_share() -> None:
    scene = Scene()
    scene.started[0].code = -signal.SIGKILL
    scene.supervisor.step()
    scene.now += 1
    scene.supervisor.step()
    scene.read(95, record(100, 10), record(101, 10))
    assert scene.supervisor.active == 5


def test_every_decision_is_one_line_with_its_reason_and_is_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", logger="headrace.supervisor")
    scene = Scene()
    scene.read(95, running=10)
    scene.read(0)
    lines = [text for text in caplog.messages if text.startswith("worker processes: ")]
    assert lines == [
        "worker processes: 1 -> 5 (backlog: 95 jobs wait; 10 run; 1 consumers x 10 = 10 slots)",
        "worker processes: 5 -> 1 (idle: 0 jobs wait; 0 run; 5 consumers x 10 = 50 slots)",
    ]
    processes = scene.gauge.processes
    assert processes is not None
    assert (processes.count, processes.least, processes.most, processes.slots) == (1, 1, 8, 10)
    assert (processes.ups, processes.downs) == ({"backlog": 1}, {"idle": 1})


def taken(gauge: Gauge, count: int) -> list[WorkloadSurvey | None]:
    """Wait until the gauge has brought so many."""
    found: list[WorkloadSurvey | None] = []

    def enough() -> bool:
        found.extend(gauge.take())
        return len(found) >= count

    eventually("the gauge has read", enough)
    return found


def test_the_gauge_reads_queues_and_says_once_that_it_cannot(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    app = Headrace(f"sqlite:///{tmp_path}/jobs.db")

    @app.task
    async def work() -> None: ...

    work.enqueue_sync()
    app.portal.run(app.admin.pause("later"))
    work.options(queue="later").enqueue_sync()
    work.options(delay=1000).enqueue_sync()
    gauge = Gauge(app, [Workload("jobs", ("default", "later"), 10)], poll=0.01)
    gauge.start(lambda: None)
    (first, *_) = taken(gauge, 1)
    gauge.stop()
    assert first is not None
    (found,) = first.seen.values()
    assert (found.waiting, found.running, found.scheduled) == (1, 0, 1)
    app.portal.close()

    away = Gauge(Headrace("redis://127.0.0.1:1/0"), [JOBS], poll=0.01)
    away.start(lambda: None)
    missed = taken(away, 3)
    away.stop()
    assert set(missed) == {None}
    assert caplog.text.count("the backlog cannot be read, all stays as it is") == 1


# Real processes

QUICK = {
    "HEADRACE_SCALE_POLL": "0.1",
    "HEADRACE_SCALE_HYSTERESIS": "0.2",
    "HEADRACE_SCALE_COOLDOWN": "0.2",
}


def send_held(count: int) -> None:
    app = Headrace(namespace="shop")

    @app.task(name="hold")
    async def remote(name: str) -> None: ...

    async def main() -> None:
        async with app:
            for number in range(count):
                await remote.enqueue(f"held-{number}")

    asyncio.run(main())


def test_a_backlog_scales_processes_up_and_idleness_down(start: Start, shop: Path) -> None:
    send_held(20)
    parent = start("worker", "shop:app", "-p", "1..3", "-c", "2", **QUICK)
    parent.says("worker processes: 1 -> 3 (backlog: ")
    parent.says("runs default, mail", times=3)
    for number in range(20):
        (shop / f"held-{number}-go").touch()
    parent.says("-> 1 (idle: 0 jobs wait; ")
    parent.says("is asked to stop", times=2)
    parent.says("ended with exit code 0", times=2)
    assert all((shop / f"held-{number}-done").exists() for number in range(20))
    parent.send(signal.SIGTERM)
    assert parent.ended() == 0
    assert len(parent.children) == 3
    assert "; scaled up 1 time; scaled down " in parent.output


@pytest.mark.parametrize(
    ("arguments", "env", "text"),
    [
        (["-p", "3..1"], {}, "'3..1' is neither a number from 1 on nor two, such as 1..8"),
        (["-p", "0..2"], {}, "'0..2' is neither"),
        (["-p", "0"], {}, "'0' is neither"),
        (["-p", "1..2..3"], {}, "'1..2..3' is neither"),
        (["-p", "many"], {}, "'many' is neither"),
        (["-p", "1..2"], {"HEADRACE_SCALE_POLL": "soon"}, "HEADRACE_SCALE_POLL='soon'"),
        (["-p", "1..2"], {"HEADRACE_SCALE_DOWN": "3"}, "HEADRACE_SCALE_DOWN must be less"),
        (["-p", "1..2"], {"HEADRACE_URL": "memory://"}, "memory://"),
    ],
)
def test_wrong_numbers_are_one_line_and_code_2(
    start: Start, arguments: list[str], env: dict[str, str], text: str
) -> None:
    worker = start("worker", "shop:app", *arguments, **env)
    assert worker.ended() == 2
    (line,) = worker.output.splitlines()
    assert line.startswith("headrace: ")
    assert text in line
