"""A running job that is cancelled ends, wherever it runs, and nothing else does."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from headrace import Headrace, Job, JobCancelled, Retry, State, TaskCancelled
from headrace.core.job.delivery import LeasedDelivery
from headrace.core.job.envelope import encode_envelope
from headrace.store.values import Control
from headrace.worker.run import stopper
from headrace.worker.run.intake import Intake
from headrace.worker.run.run import Run
from headrace.worker.run.run_settings import RunSettings
from headrace.worker.threads.interruption import Answer, Interruptible
from tests.worker.states import reach, until

# At the top level, as tasks that another process must import have to be.
app = Headrace("memory://")


@app.task(run_in="process")
def tidy(notes: str) -> None:
    Path(notes, "begun").write_text(str(os.getpid()))
    try:
        time.sleep(3600)
    finally:
        Path(notes, "cleaned").touch()


@app.task(run_in="process")
def untidy(notes: str) -> None:
    Path(notes, "begun").write_text(str(os.getpid()))
    while True:
        try:
            time.sleep(3600)
        except BaseException:
            Path(notes, "ignored").touch()


@app.task(run_in="process")
def pid() -> int:
    return os.getpid()


class StopperClock:
    """What the stopper takes for the time, which goes on when the test says so."""

    def __init__(self) -> None:
        self.now = time.monotonic()
        self.looked_at = False

    def monotonic(self) -> float:
        self.looked_at = True
        return self.now


@pytest.fixture
async def running() -> AsyncIterator[Headrace]:
    async with app, app.worker(processes=1, threads=1):
        yield app


async def process_of(notes: Path) -> int:
    """The process that has begun."""
    note = notes / "begun"
    await until(lambda: note.exists() and note.read_text())
    return int(note.read_text())


async def ends_as_cancelled(job: Job[None]) -> None:
    await job.cancel()
    with pytest.raises(JobCancelled):
        await job.result(60)
    assert await job.status() is State.CANCELLED


@pytest.mark.usefixtures("running")
async def test_a_process_cleans_up_and_is_not_used_again(tmp_path: Path) -> None:
    job = await tidy.enqueue(str(tmp_path))
    process = await process_of(tmp_path)
    await ends_as_cancelled(job)
    assert (tmp_path / "cleaned").exists()
    assert await (await pid.enqueue()).result(60) != process


@pytest.mark.usefixtures("running")
async def test_a_process_that_ignores_it_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = StopperClock()
    monkeypatch.setattr(stopper, "time", clock)
    job = await untidy.enqueue(str(tmp_path))
    process = await process_of(tmp_path)
    await job.cancel()
    # However long that takes: the time that it has for it is over when the test says so.
    await until((tmp_path / "ignored").exists)
    clock.now += stopper._CANCEL_GRACE
    await ends_as_cancelled(job)
    # The only process there may be is free again.
    assert await (await pid.enqueue()).result(60) != process


@pytest.mark.usefixtures("running")
async def test_a_job_that_waits_for_a_process_is_cancelled_at_once(tmp_path: Path) -> None:
    first = await tidy.enqueue(str(tmp_path))
    await process_of(tmp_path)
    second = await pid.enqueue()
    await second.cancel()
    with pytest.raises(JobCancelled):
        await second.result(60)
    assert not (tmp_path / "cleaned").exists()
    await ends_as_cancelled(first)


async def test_a_thread_that_does_not_listen_is_left_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stopper, "_CANCEL_GRACE", 0.1)
    app = Headrace("memory://")
    begun, release, ended = threading.Event(), threading.Event(), threading.Event()

    @app.task
    def deaf() -> None:
        begun.set()
        try:
            release.wait(60)
        finally:
            ended.set()

    async with app, app.worker(threads=1):
        job = await deaf.enqueue()
        await asyncio.to_thread(begun.wait)
        await ends_as_cancelled(job)
        assert not ended.is_set()
        release.set()
        await asyncio.to_thread(ended.wait)


async def test_a_job_that_waits_for_a_thread_is_cancelled_at_once() -> None:
    app = Headrace("memory://")
    begun, release = threading.Event(), threading.Event()

    @app.task
    def hold(number: int) -> int:
        begun.set()
        release.wait(60)
        return number

    async with app, app.worker(threads=1):
        first = await hold.enqueue(1)
        await asyncio.to_thread(begun.wait)
        second = await hold.enqueue(2)
        await second.cancel()
        with pytest.raises(JobCancelled):
            await second.result(60)
        release.set()
        assert await first.result(60) == 1


async def test_whatever_a_cancelled_job_raises_it_is_cancelled() -> None:
    app = Headrace("memory://")
    begun = asyncio.Event()

    @app.task(retry=Retry(5, base=0.01))
    async def clumsy() -> None:
        begun.set()
        try:
            await asyncio.sleep(3600)
        finally:
            raise OSError("while cleaning up")

    async with app, app.worker():
        job = await clumsy.enqueue()
        await begun.wait()
        await ends_as_cancelled(job)


async def test_a_job_without_a_result_says_that_it_was_cancelled() -> None:
    app = Headrace("memory://")
    begun = asyncio.Event()

    @app.task(result_ttl=0)
    async def long() -> None:
        begun.set()
        await asyncio.sleep(3600)

    async with app, app.worker():
        job = await long.enqueue()
        await begun.wait()
        await ends_as_cancelled(job)


async def test_jobs_of_a_paused_task_wait_in_the_store() -> None:
    app = Headrace("memory://")
    ran: list[str] = []

    @app.task
    async def paused(name: str) -> None:
        ran.append(name)

    @app.task
    async def other(name: str) -> None:
        ran.append(name)

    async with app:
        await app.store.pause("default", "paused")
        async with app.worker():
            held = await paused.enqueue("held")
            await (await other.enqueue("other")).result(60)
            await reach([held], State.BLOCKED)
            assert ran == ["other"]
            await app.store.resume("default", "paused")
            await held.result(60)
    assert ran == ["other", "held"]


async def test_a_task_is_paused_before_those_in_hand_have_begun() -> None:
    app = Headrace("memory://")
    begun, release = threading.Event(), threading.Event()

    @app.task
    def hold() -> None:
        begun.set()
        release.wait(60)

    @app.task(batch=5, max_wait=60)
    def gathered(rows: list[int]) -> None: ...

    async with app, app.worker(threads=1):
        member = await gathered.enqueue(1)
        await reach([member], State.RUNNING)
        first = await hold.enqueue()
        await asyncio.to_thread(begun.wait)
        second = await hold.enqueue()
        for task in ("hold", "gathered"):
            await app.store.pause("default", task)
        await reach([member], State.BLOCKED)
        release.set()
        await first.result(60)
        await reach([second], State.BLOCKED)


async def test_a_cancellation_is_applied_once() -> None:
    """The store knows of which job it was; if of an earlier one with this id, it gives it again."""
    envelope = encode_envelope(b"same-id", "work", b"\x90")
    settings = RunSettings("worker", None, crash_limit=3, max_payload=100, now_ms=lambda: 0)
    intake = Intake({}, settings, unpack_all=False)

    def decoded() -> Run:
        run = Run(LeasedDelivery("default", 1, envelope), settings)
        intake.decode(run)
        return run

    intake.apply_control("default", Control(cancelling=(b"same-id",)))
    with pytest.raises(TaskCancelled):
        decoded()
    assert not decoded().cancelled
    intake.apply_control("default", Control(cancelling=(b"same-id",)), in_hand={b"same-id"})
    assert not decoded().cancelled


def spin(stop: Callable[[], bool]) -> str:
    while not stop():
        pass
    return "all of it"


def test_the_exception_strikes_the_function_and_not_the_thread() -> None:
    """Retried and again, at every moment of a short life."""
    for number in range(300):
        function = Interruptible()
        pause = number % 30 / 20_000
        ends_at = time.monotonic() + 0.0007
        answers: list[Answer] = []
        strays: list[BaseException] = []

        def thread(
            function: Interruptible = function,
            ends_at: float = ends_at,
            answers: list[Answer] = answers,
            strays: list[BaseException] = strays,
        ) -> None:
            try:
                answers.append(function.run(lambda: spin(lambda: time.monotonic() > ends_at)))
                spin(lambda: time.monotonic() > ends_at + 0.0005)
            except BaseException as stray:
                strays.append(stray)

        worker = threading.Thread(target=thread)
        worker.start()
        time.sleep(pause)
        function.interrupt()
        worker.join()
        assert not strays
        ((value, error),) = answers
        assert value == "all of it" or isinstance(error, TaskCancelled)


def test_a_function_that_was_interrupted_before_it_began_does_not_begin() -> None:
    function = Interruptible()
    function.interrupt()
    _, error = function.run(lambda: pytest.fail("it began"))
    assert isinstance(error, TaskCancelled)
