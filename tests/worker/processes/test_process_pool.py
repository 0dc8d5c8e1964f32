"""Several runs in one process: each ends once, and those that have not begun can go elsewhere."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NoReturn

import msgspec
import pytest

from headrace.core.job.failure import Unfit
from headrace.core.job.state import Reason
from headrace.errors import ProcessDied
from headrace.worker.run.run import Run
from tests.worker.processes.pool_tasks import (
    AwaitedPool,
    Far,
    die,
    echo,
    hold,
    note,
    notes_in,
    scribble,
)
from tests.worker.states import until


@pytest.fixture
async def pool() -> AsyncIterator[AwaitedPool]:
    """One process, which holds whatever it is given."""
    pool = AwaitedPool()
    await pool.end_of(pool.start(echo.call(b"")))
    pool.ends.clear()
    yield pool
    await pool.close()


async def held(pool: AwaitedPool, folder: Path) -> Run:
    """A run that has begun, and goes on until the gate is opened."""
    run = pool.start(hold.call(str(folder)))
    await until(lambda: has_begun(folder))
    return run


async def started(pool: AwaitedPool, folder: Path) -> None:
    """Have two processes, or one, run something."""
    gates = ["first", "second"][: pool.free]
    runs = [pool.start(hold.call(str(folder), gate)) for gate in gates]
    await until(lambda: all(has_begun(folder, gate) for gate in gates))
    for gate, run in zip(gates, runs, strict=True):
        (folder / gate).touch()
        await pool.end_of(run)


def has_begun(folder: Path, gate: str = "gate") -> bool:
    pid = folder / f"{gate}-pid"
    return pid.exists() and bool(pid.read_text())


def process_in(folder: Path) -> int:
    return int((folder / "gate-pid").read_text())


def start_notes(pool: AwaitedPool, folder: Path, what: str) -> list[Run]:
    return [pool.start(note.call(str(folder), one)) for one in what]


async def test_one_process_runs_many_in_order(pool: AwaitedPool, tmp_path: Path) -> None:
    runs = [pool.start(note.call(str(tmp_path), str(number))) for number in range(300)]
    processes = {await pool.end_of(run) for run in runs}
    assert len(processes) == 1
    assert notes_in(tmp_path) == [str(number) for number in range(300)]
    assert [run for run, _, _ in pool.ends] == runs


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("exit", "ended with exit code 7"),
        ("SIGKILL", "was killed by signal 9"),
        ("SIGSEGV", "was killed by signal 11"),
        ("half a reply", "ended with exit code 7"),
        ("leaving a child", "ended with exit code 7"),
    ],
)
async def test_the_neighbours_of_a_crash_run_once(
    pool: AwaitedPool, tmp_path: Path, how: str, said: str
) -> None:
    before = start_notes(pool, tmp_path, "ab")
    crash = pool.start(die.call(how))
    after = start_notes(pool, tmp_path, "cde")
    error = await pool.end_of(crash)
    assert isinstance(error, ProcessDied)
    assert str(error) == f"the process that ran the job {said}"
    first = {await pool.end_of(run) for run in before}
    second = {await pool.end_of(run) for run in after}
    assert (len(first), len(second), first & second) == (1, 1, set())
    assert notes_in(tmp_path) == list("abcde")


async def test_what_is_not_a_message_costs_one_run(pool: AwaitedPool, tmp_path: Path) -> None:
    run = pool.start(scribble.call())
    after = start_notes(pool, tmp_path, "ab")
    error = await pool.end_of(run)
    assert isinstance(error, ProcessDied)
    assert "what is not a message" in str(error)
    for one in after:
        assert isinstance(await pool.end_of(one), bytes)
    assert notes_in(tmp_path) == ["a", "b"]


async def test_a_message_may_have_many_megabytes(pool: AwaitedPool, tmp_path: Path) -> None:
    large = os.urandom(24 << 20)
    runs = [pool.start(echo.call(large)), pool.start(note.call(str(tmp_path), "a"))]
    runs.append(pool.start(echo.call(large)))
    first, _, third = [await pool.end_of(run) for run in runs]
    assert isinstance(first, bytes)
    assert first == third
    assert msgspec.msgpack.decode(first) == large
    assert notes_in(tmp_path) == ["a"]


async def test_large_arguments_wait_in_the_worker(pool: AwaitedPool, tmp_path: Path) -> None:
    await held(pool, tmp_path)
    large, small = pool.start(echo.call(bytes(1 << 20))), pool.start(note.call(str(tmp_path), "a"))
    assert (large.process, small.process) == (None, None)
    (tmp_path / "gate").touch()
    await pool.end_of(small)
    assert [run for run, _, _ in pool.ends][-2:] == [large, small]


# Withdrawing


async def test_a_run_that_has_not_begun_can_be_withdrawn(pool: AwaitedPool, tmp_path: Path) -> None:
    first = await held(pool, tmp_path)
    runs = start_notes(pool, tmp_path, "abcd")
    await until(lambda: pool.capacity() == 101 - 5)
    assert pool.withdraw(runs[1])
    assert pool.withdraw(runs[3])
    assert not pool.withdraw(runs[1])
    (tmp_path / "gate").touch()
    for run in (first, runs[0], runs[2]):
        assert isinstance(await pool.end_of(run), bytes)
    await pool.end_of(pool.start(note.call(str(tmp_path), "e")))
    assert notes_in(tmp_path) == ["a", "c", "e"]
    assert len(pool.ends) == 4


async def test_a_run_that_has_begun_cannot_be_withdrawn(pool: AwaitedPool, tmp_path: Path) -> None:
    first = await held(pool, tmp_path)
    assert not pool.withdraw(first)
    (tmp_path / "gate").touch()
    assert isinstance(await pool.end_of(first), bytes)
    assert not pool.withdraw(first)


async def test_a_process_that_is_stopped_need_not_answer(pool: AwaitedPool, tmp_path: Path) -> None:
    await held(pool, tmp_path)
    (run,) = start_notes(pool, tmp_path, "a")
    await until(lambda: run.process is not None)
    await asyncio.sleep(0)
    os.kill(process_in(tmp_path), signal.SIGSTOP)
    assert pool.withdraw(run)
    os.kill(process_in(tmp_path), signal.SIGCONT)
    (tmp_path / "gate").touch()
    await pool.end_of(pool.start(note.call(str(tmp_path), "b")))
    assert notes_in(tmp_path) == ["b"]


async def test_runs_race_for_their_begin(pool: AwaitedPool, tmp_path: Path) -> None:
    """Each is either withdrawn or run."""
    runs = {str(one): pool.start(note.call(str(tmp_path), str(one))) for one in range(200)}
    await until(lambda: pool.ends)
    withdrawn = []
    for name, run in reversed(runs.items()):
        if pool.withdraw(run):
            withdrawn.append(name)
        await asyncio.sleep(0)
    for name, run in runs.items():
        if name not in withdrawn:
            await pool.end_of(run)
    assert sorted([*withdrawn, *notes_in(tmp_path)]) == sorted(runs)


# Time


async def test_the_time_of_a_run_begins_with_its_function(
    pool: AwaitedPool, tmp_path: Path
) -> None:
    first = await held(pool, tmp_path)
    (second,) = start_notes(pool, tmp_path, "a")
    await until(lambda: first.started and first.ends_at == first.started + 60)
    assert not second.has_begun
    assert second.ends_at == float("inf")
    (tmp_path / "gate").touch()
    await pool.end_of(second)
    assert first.started < first.ended <= second.started <= second.ended <= time.monotonic()
    second.note_facts(ahead_ms=1000.0)
    assert second.delivery.started_ms == int(second.started * 1000 + 1000)
    assert second.delivery.took_us == int((second.ended - second.started) * 1_000_000)


async def test_a_job_that_expires_in_a_process_does_not_start(
    pool: AwaitedPool, tmp_path: Path
) -> None:
    await held(pool, tmp_path)
    late = pool.start(note.options(expires=0.05).call(str(tmp_path), "late"))
    on_time = pool.start(note.options(expires=600).call(str(tmp_path), "on-time"))
    expired_at = time.monotonic() + 0.1
    await until(lambda: time.monotonic() > expired_at)
    (tmp_path / "gate").touch()
    error = await pool.end_of(late)
    assert isinstance(error, Unfit)
    assert (error.reason, str(error)) == (
        Reason.EXPIRED,
        "the job expired before it could be started",
    )
    assert not late.has_begun
    assert isinstance(await pool.end_of(on_time), bytes)
    assert notes_in(tmp_path) == ["on-time"]


# Several processes


async def test_a_killed_process_takes_no_other_run_along(pool: AwaitedPool, tmp_path: Path) -> None:
    first = await held(pool, tmp_path)
    others = start_notes(pool, tmp_path, "abc")
    await until(lambda: others[-1].process is not None)
    gone = pool.kill(first)
    assert gone is not None
    await gone.wait()
    assert isinstance(await pool.end_of(first), ProcessDied)
    for run in others:
        assert isinstance(await pool.end_of(run), bytes)
    assert notes_in(tmp_path) == ["a", "b", "c"]


async def test_an_idle_process_takes_over_what_waits_behind_a_long_run(tmp_path: Path) -> None:
    pool = AwaitedPool(2)
    await started(pool, tmp_path)
    long = pool.start(hold.call(str(tmp_path)))
    short = pool.start(hold.call(str(tmp_path), "other"))
    await until(lambda: has_begun(tmp_path) and has_begun(tmp_path, "other"))
    runs = start_notes(pool, tmp_path, "abcdef")
    assert pool.capacity() == 2 * 101 - 8
    (tmp_path / "other").touch()
    other = await pool.end_of(short)
    assert [await pool.end_of(run) for run in runs] == [other] * 6
    assert sorted(notes_in(tmp_path)) == list("abcdef")
    assert long in pool
    await pool.close()


async def test_nothing_stays_behind_a_run_that_takes_long(tmp_path: Path) -> None:
    pool = AwaitedPool(1, slow_after=0.0)
    await started(pool, tmp_path)
    await held(pool, tmp_path)
    runs = start_notes(pool, tmp_path, "ab")
    await until(lambda: not any(run.process for run in runs))
    assert (pool.free, pool.capacity()) == (0, 0)
    assert pool.withdraw(runs[0])
    (tmp_path / "gate").touch()
    assert isinstance(await pool.end_of(runs[1]), bytes)
    assert notes_in(tmp_path) == ["b"]
    await pool.close()


async def test_an_idle_process_that_died_is_not_used_again(
    pool: AwaitedPool, tmp_path: Path
) -> None:
    first = await pool.end_of(pool.start(note.call(str(tmp_path), "a")))
    assert isinstance(first, bytes)
    os.kill(msgspec.msgpack.decode(first, type=int), signal.SIGKILL)
    runs = start_notes(pool, tmp_path, "bc")
    for run in runs:
        assert isinstance(await pool.end_of(run), bytes)
        assert await pool.end_of(run) != first
    assert notes_in(tmp_path) == ["a", "b", "c"]


async def test_a_reserved_process_is_kept_free(pool: AwaitedPool, tmp_path: Path) -> None:
    async with pool.reserved() as process:
        other = pool.start(note.call(str(tmp_path), "later"))
        assert other.process is None
        run = pool.made(note.call(str(tmp_path), "first"))
        pool.submit(run, lambda *end: pool.ends.append(end), process)
        await pool.end_of(run)
        assert other.process is None
    await pool.end_of(other)
    assert notes_in(tmp_path) == ["first", "later"]


async def test_nothing_waits_for_a_process_that_starts(tmp_path: Path) -> None:
    pool = AwaitedPool(2)
    runs = start_notes(pool, tmp_path, "abcd")
    assert [run.process is not None for run in runs] == [True, True, False, False]
    for run in runs:
        await pool.end_of(run)
    await pool.close()


@pytest.mark.parametrize("program", ["/bin/false", "/there/is/no/such/program"])
async def test_a_process_that_cannot_start_fails_its_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    monkeypatch.setattr(sys, "executable", program)
    pool = AwaitedPool()
    runs = start_notes(pool, tmp_path, "abc")
    errors = {type(await pool.end_of(run)) for run in runs}
    assert errors == {ProcessDied if program == "/bin/false" else FileNotFoundError}
    monkeypatch.undo()
    await pool.end_of(pool.start(note.call(str(tmp_path), "d")))
    assert notes_in(tmp_path) == ["d"]
    await pool.close()


async def test_a_worker_without_descriptors_fails_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = AwaitedPool()

    def none() -> NoReturn:
        raise OSError("too many open files")

    monkeypatch.setattr(socket, "socketpair", none)
    run = pool.start(note.call(str(tmp_path), "a"))
    assert isinstance(await pool.end_of(run), OSError)
    monkeypatch.undo()
    await pool.end_of(pool.start(note.call(str(tmp_path), "b")))
    assert notes_in(tmp_path) == ["b"]
    await pool.close()


# How much the pool takes


async def test_nothing_is_held_ahead_until_it_is_known_how_long_runs_take(tmp_path: Path) -> None:
    pool = AwaitedPool(2, Far(0))
    assert (pool.free, pool.capacity()) == (2, 2)
    run = await held(pool, tmp_path)
    assert (pool.free, pool.capacity()) == (1, 1)
    others = start_notes(pool, tmp_path, "ab")
    assert (pool.free, pool.capacity()) == (0, 0)
    (tmp_path / "gate").touch()
    for one in (run, *others):
        await pool.end_of(one)
    assert (pool.free, pool.capacity()) == (2, 2)
    await pool.close()


async def test_processes_die_with_their_worker(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(
        "import asyncio, sys\n"
        "from tests.worker.processes.pool_tasks import AwaitedPool, hold\n"
        "async def main():\n"
        "    pool = AwaitedPool()\n"
        "    await pool.end_of(pool.start(hold.call(sys.argv[1])))\n"
        "asyncio.run(main())\n"
    )
    parent = await asyncio.create_subprocess_exec(
        sys.executable,
        str(script),
        str(tmp_path),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    await until(lambda: has_begun(tmp_path))
    parent.kill()
    await parent.wait()
    await until(lambda: not _lives(process_in(tmp_path)))


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # A process that has ended, and that nobody has waited for.
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
