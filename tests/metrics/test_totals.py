"""What several processes have counted is one sum, and never goes down."""

from __future__ import annotations

import itertools
import os
import threading
import time
from pathlib import Path

import msgspec
import pytest

from headrace.core.job.tally import SettledColumns, Tally
from headrace.core.workers import Scaled
from headrace.errors import StoreUnavailable
from headrace.metrics import multiprocess
from headrace.metrics.multiprocess import MultiprocessTotals, TotalsWriter
from headrace.metrics.totals import Presence, Totals, TotalsSnapshot


def tally(done: int, task: str = "add") -> Tally:
    counts = {("done", task): done, ("<1000", task): done, ("run_us", task): 10 * done}
    return Tally(counts, SettledColumns([]))


def test_batches_add_up_by_queue_and_task() -> None:
    totals = Totals()
    totals.count("default", tally(3))
    totals.count("default", tally(4))
    totals.count("mail", tally(1, "send"))
    totals.count_redeliveries("mail", 2)
    found = totals.snapshot()
    assert found.counts == {
        "default": {"add": {"done": 7, "<1000": 7, "run_us": 70}},
        "mail": {"send": {"done": 1, "<1000": 1, "run_us": 10}},
    }
    assert found.redeliveries == {"mail": 2}
    assert found.pid == os.getpid()


def test_only_errors_of_the_store_are_counted_and_all_are_passed_on() -> None:
    totals, noticed = Totals(), []
    notice = totals.counting_errors(lambda scope, error, details: noticed.append(scope))
    notice("read", StoreUnavailable("away"), {})
    notice("read", StoreUnavailable("away"), {})
    notice("settle", ValueError("a bug"), {})
    assert totals.snapshot().store_errors == {"read": 2}
    assert noticed == ["read", "read", "settle"]


class Crew:
    """Worker processes that tests make up, with a file each."""

    def __init__(self, folder: Path) -> None:
        self.living: set[int] = set()
        self.folder = folder
        self.totals = MultiprocessTotals(folder, lambda: self.living)

    def write(self, pid: int, done: int, name: str = "", ago: float = 0.0) -> None:
        ups = {"backlog": done}
        snapshot = TotalsSnapshot(
            pid,
            time.monotonic() - ago,
            {"default": {"add": {"done": done}}},
            presence=Presence(
                "working",
                running=1,
                slots=10,
                lost_leases=1,
                consumers={"billing@orders": Scaled(1, 1, 4, 10, ups)},
            ),
        )
        path = self.folder / f"{pid}{name}.totals"
        path.write_bytes(msgspec.msgpack.encode(snapshot))

    @property
    def done(self) -> int:
        return self.totals.snapshot().counts["default"]["add"]["done"]


@pytest.fixture
def crew(tmp_path: Path) -> Crew:
    return Crew(tmp_path)


def test_totals_are_of_all_processes_and_gauges_of_those_that_live(crew: Crew) -> None:
    crew.living = {1, 2}
    crew.write(1, 5)
    crew.write(2, 7)
    crew.write(3, 100)
    found = crew.totals.snapshot()
    assert crew.done == 112
    assert (found.presence.running, found.presence.slots) == (2, 20)
    assert found.presence.lost_leases == 3
    consumers = found.presence.consumers["billing@orders"]
    assert (consumers.count, consumers.ups) == (2, {"backlog": 112})


def test_what_has_ended_long_ago_is_kept_without_its_file(crew: Crew) -> None:
    crew.write(3, 100, ago=3600)
    crew.living = {1}
    crew.write(1, 1)
    assert [crew.done, crew.done] == [101, 101]
    assert [path.name for path in crew.folder.iterdir()] == ["1.totals"]
    assert crew.totals.snapshot().presence.slots == 10


def test_probes_alone_let_no_files_pile_up(crew: Crew) -> None:
    for pid in range(2, 52):
        crew.write(pid, 2, ago=3600)
    crew.living = {1}
    crew.write(1, 1)
    assert list(crew.totals.living()) == [1]
    assert [path.name for path in crew.folder.iterdir()] == ["1.totals"]
    assert crew.done == 101


def test_a_process_number_that_is_used_again_is_another_process(crew: Crew) -> None:
    crew.living = {1}
    crew.write(1, 100, name="-old", ago=5)
    crew.write(1, 1)
    assert crew.done == 101
    assert crew.totals.snapshot().presence.slots == 10
    assert list(crew.totals.living()) == [1]


def test_a_file_that_is_not_ours_is_passed_over(crew: Crew) -> None:
    (crew.folder / "9.totals").write_bytes(b"\xc1")
    crew.write(1, 5)
    assert crew.done == 5


def test_a_process_writes_at_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multiprocess, "_EVERY", 3600.0)
    monkeypatch.setenv(multiprocess.TOTALS_DIR, str(tmp_path))
    folder = multiprocess.pop_totals_dir()
    assert folder == tmp_path
    assert multiprocess.pop_totals_dir() is None
    totals = Totals()
    writer = TotalsWriter(totals, folder)
    writer.start()
    totals.count("default", tally(3))
    writer.close()
    found = MultiprocessTotals(tmp_path, lambda: {os.getpid()}).snapshot()
    assert found.counts["default"]["add"]["done"] == 3
    assert len(list(tmp_path.iterdir())) == 1


def test_a_process_that_could_not_report_once_reports_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(multiprocess, "_EVERY", 0.001)
    asked = itertools.count(1)
    written = threading.Event()

    def presence() -> Presence:
        if next(asked) <= 3:
            raise RuntimeError("dictionary changed size during iteration")
        written.set()
        return Presence("working")

    totals = Totals()
    totals.presence = presence
    writer = TotalsWriter(totals, tmp_path)
    writer.start()
    assert written.wait(30)
    writer.close()
    (found,) = MultiprocessTotals(tmp_path, lambda: {os.getpid()}).living().values()
    assert found.presence.phase == "working"
    assert caplog.text.count("cannot be written for the metrics") == 1
