"""`headrace worker` as a process: signals and exit codes."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from headrace import Headrace
from tests.cli.conftest import Start
from tests.cli.programs import eventually


def send(task: str, argument: str, url: str | None = None) -> None:
    """Send a job of the shop, whose code is not imported here."""
    app = Headrace(url, namespace="shop")

    @app.task(name=task)
    async def remote(name: str) -> None: ...

    async def main() -> None:
        async with app:
            await remote.enqueue(argument)

    asyncio.run(main())


def test_sigterm_ends_an_idle_worker_with_code_0(start: Start) -> None:
    worker = start("worker", "shop:app")
    worker.says("runs default, mail")
    worker.send(signal.SIGTERM)
    assert worker.ended() == 0


def test_a_worker_runs_jobs_of_the_queues_it_was_given(start: Start, shop: Path) -> None:
    worker = start("worker", "-A", "shop:app", "-Q", "default,extra", "-c", "3", "--threads", "1")
    worker.says("runs default, extra")
    send("touch", "touched")
    eventually("the job has run", (shop / "touched").exists)
    worker.send(signal.SIGINT)
    assert worker.ended() == 0


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_burst_ends_by_itself(start: Start, shop: Path, processes: str) -> None:
    send("touch", "touched")
    worker = start("worker", "shop:app", "-p", processes, HEADRACE_BURST="1")
    assert worker.ended() == 0
    assert (shop / "touched").exists(), worker.output
    assert "the burst ends; left for later: nothing" in worker.output


def test_tasks_do_not_see_the_variables_of_the_dashboard(start: Start, shop: Path) -> None:
    send("reveal", "variables")
    secrets = {"HEADRACE_DASHBOARD_AUTH": "ann:s3cret42", "HEADRACE_DASHBOARD_SECRET": "x" * 16}
    assert start("worker", "shop:app", "--burst", HEADRACE_KEEP_DONE="5", **secrets).ended() == 0
    seen = (shop / "variables").read_text().split()
    assert "HEADRACE_KEEP_DONE" in seen
    assert not secrets.keys() & set(seen)


@pytest.mark.parametrize("processes", ["1", "2"])
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["-Q", "default=3, extra"], "runs default=3, extra=1"),
        (["-Q", "default", "-Q", "extra", "--strict"], "runs default, extra, in this order"),
        (["-Q", "default,a=b"], "runs default, a=b"),
    ],
)
def test_queues_have_weights_or_a_strict_order(
    start: Start, shop: Path, arguments: list[str], text: str, processes: str
) -> None:
    worker = start("worker", "shop:app", *arguments, "-p", processes)
    worker.says(text)
    send("touch", "touched")
    eventually("the job has run", (shop / "touched").exists)
    worker.send(signal.SIGTERM)
    assert worker.ended() == 0


def test_a_running_job_may_end_after_sigterm(start: Start, shop: Path) -> None:
    worker = start("worker", "shop:app", "--drain", "600")
    send("hold", "held")
    eventually("the job runs", (shop / "held").exists)
    worker.send(signal.SIGTERM)
    (shop / "held-go").touch()
    assert worker.ended() == 0
    assert (shop / "held-done").exists()


def test_past_the_drain_jobs_are_cut_short_and_the_code_is_3(start: Start, shop: Path) -> None:
    worker = start("worker", "shop:app", "--drain", "0.1")
    send("hold", "held")
    eventually("the job runs", (shop / "held").exists)
    worker.send(signal.SIGTERM)
    assert worker.ended() == 3
    assert not (shop / "held-done").exists()


def test_a_second_signal_does_not_wait_for_the_drain(start: Start, shop: Path) -> None:
    worker = start("worker", "shop:app", "--drain", "600")
    send("hold", "held")
    eventually("the job runs", (shop / "held").exists)
    worker.send(signal.SIGINT)

    def hurried() -> bool:
        worker.send(signal.SIGINT)
        return worker.process.poll() is not None

    eventually("the worker has ended", hurried)
    assert worker.ended() == 3


def test_a_thread_that_never_ends_does_not_keep_the_process(start: Start, shop: Path) -> None:
    worker = start("worker", "shop:app", "--drain", "0.1")
    send("stuck", "entered")
    eventually("the job runs", (shop / "entered").exists)
    worker.send(signal.SIGTERM)
    assert worker.ended() == 3
    assert " ended after " in worker.output


@pytest.mark.parametrize("kind", ["exit", "interrupt"])
@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_what_escapes_the_event_loop_does_not_end_the_worker(
    start: Start, shop: Path, kind: str, loop: str
) -> None:
    if loop == "asyncio":
        (shop / "uvloop.py").write_text("raise ImportError('not here')")
    worker = start("worker", "shop:app")
    worker.says("runs default")
    send("spill", kind)
    worker.says("the worker goes on")
    send("touch", "touched")
    eventually("a job after it has run", (shop / "touched").exists)
    worker.send(signal.SIGTERM)
    assert worker.ended() == 0


def test_atexit_functions_of_the_app_are_called(start: Start, shop: Path) -> None:
    with (shop / "shop.py").open("a") as module:
        module.write("\nimport atexit\natexit.register(Path('said-goodbye').touch)\n")
    worker = start("worker", "shop:app")
    worker.says("runs default")
    worker.send(signal.SIGTERM)
    assert worker.ended() == 0
    assert (shop / "said-goodbye").exists()


def test_a_signal_while_the_app_is_imported_ends_the_process(start: Start, shop: Path) -> None:
    (shop / "slow.py").write_text(
        "import time, pathlib\npathlib.Path('importing').touch()\ntime.sleep(1000)\n"
    )
    worker = start("worker", "slow:app")
    eventually("the import has begun", (shop / "importing").exists)
    worker.send(signal.SIGTERM)
    assert worker.ended() == 0


def test_a_lifespan_that_fails_is_a_crash(start: Start, shop: Path) -> None:
    with (shop / "shop.py").open("a") as module:
        module.write("\n@app.lifespan\nasync def life():\n    raise OSError('no'); yield\n")
    worker = start("worker", "shop:app")
    assert worker.ended() == 2
    assert "OSError: no" in worker.output


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["nothing:app"], "there is no module 'nothing'"),
        (["shop:nothing"], "module 'shop' has no 'nothing': write shop:app"),
        (["shop:touch"], "shop:touch is not a Headrace app"),
        (["shop"], "write shop:app"),
        (["shop.py:app"], "write shop:app"),
        (["shpo:app"], "did you mean 'shop'?"),
        (["nowhere"], "write module:attribute"),
        ([], "say which app"),
        (["shop:app", "-A", "shop:app"], "given twice"),
        (["shop:app", "-c", "0"], "Invalid value for '-c'"),
        (["shop:app", "-c", "many"], "Invalid value for '-c'"),
        (["shop:app", "--drain", "-1"], "drain must be at least 0 seconds"),
        (["shop:app", "-Q", "a b"], "spaces, braces"),
        (["shop:app", "-Q", "mail=0"], "the weight of queue 'mail' must be a whole number"),
        (["shop:app", "-Q", "mail=2", "--strict"], "give a list, without weights"),
        (["shop:app", "--bogus"], "No such option"),
    ],
)
@pytest.mark.parametrize("processes", ["1", "2"])
def test_wrong_use_is_one_line_and_code_2(
    start: Start, arguments: list[str], text: str, processes: str
) -> None:
    worker = start("worker", *arguments, "-p", processes)
    assert worker.ended() == 2
    (line,) = worker.output.splitlines()
    assert line.startswith("headrace: ")
    assert text in line


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("redis://127.0.0.1:1/0", "Redis cannot be reached"),
        ("sqlite:////nowhere/at/all/jobs.db", "/nowhere/at/all"),
        ("sqlite:///shop.py", "not an SQLite file"),
        ("carrier-pigeon://loft", "unknown store URL"),
    ],
)
@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_store_that_cannot_be_used_is_one_line_and_code_2(
    start: Start, url: str, text: str, processes: str
) -> None:
    # One that is away would be waited for; what is wrong in another way is told at once.
    waits = ["--wait-for-store", "0"] if url.startswith("redis:") else []
    worker = start("worker", "shop:app", "-p", processes, *waits, HEADRACE_URL=url)
    assert worker.ended() == 2
    (line,) = worker.output.splitlines()
    assert line.startswith("headrace: ")
    assert text in line


def test_a_store_of_one_process_is_refused_for_several(start: Start) -> None:
    worker = start("worker", "shop:app", "-p", "2", HEADRACE_URL="memory://")
    assert worker.ended() == 2
    assert "memory://" in worker.output


def test_a_worker_alone_with_its_store_warns_that_nobody_can_send(start: Start) -> None:
    worker = start("worker", "shop:app", HEADRACE_URL="memory://")
    worker.says("no other can send jobs to this worker")
    worker.process.send_signal(signal.SIGTERM)
    assert worker.ended() == 0


def test_a_bug_in_the_app_shows_where_and_one_line(start: Start, shop: Path) -> None:
    (shop / "buggy.py").write_text("def half():\n    return 1 / 0\n\nhalf()\n")
    worker = start("worker", "buggy:app")
    assert worker.ended() == 2
    *trace, line = worker.output.splitlines()
    assert (
        line == "headrace: module 'buggy' cannot be imported: ZeroDivisionError: division by zero"
    )
    assert "    return 1 / 0" in trace
    assert not any("importlib" in part or "headrace" in part for part in trace)


def test_two_tasks_of_one_name_are_one_line(start: Start, shop: Path) -> None:
    with (shop / "shop.py").open("a") as module:
        module.write("\n@app.task(name='touch')\ndef other() -> None: ...\n")
    worker = start("worker", "shop:app")
    assert worker.ended() == 2
    (line,) = worker.output.splitlines()
    assert "two tasks are named 'touch'" in line


def test_logging_that_the_app_has_set_up_is_left_as_it_is(start: Start, shop: Path) -> None:
    with (shop / "shop.py").open("a") as module:
        module.write("\nimport logging\nlogging.basicConfig(format='MINE %(message)s', level=20)\n")
    worker = start("worker", "shop:app")
    worker.says("MINE worker ")
    worker.send(signal.SIGTERM)
    assert worker.ended() == 0


def test_the_same_on_redis(start: Start, shop: Path, redis_url: str, namespace: str) -> None:
    text = (shop / "shop.py").read_text().replace('namespace="shop"', f'namespace="{namespace}"')
    (shop / "shop.py").write_text(text)
    worker = start("worker", "shop:app", HEADRACE_URL=redis_url)
    worker.says("runs default, mail")
    worker.send(signal.SIGTERM)
    assert worker.ended() == 0


@pytest.mark.parametrize("processes", ["1", "2"])
def test_options_have_variables_and_the_command_line_counts_first(
    start: Start, processes: str
) -> None:
    worker = start(
        *("worker", "shop:app", "-c", "9"),
        HEADRACE_CONCURRENCY="7",
        HEADRACE_THREADS="3",
        HEADRACE_QUEUES="default=2,mail",
        HEADRACE_WORKERS=processes,
        HEADRACE_WORKER_NAME="shop-1",
        HEADRACE_SCHEDULES="0",
    )
    worker.says("runs default=2, mail=1", times=int(processes))
    worker.send(signal.SIGTERM)
    assert worker.ended() == 0
    assert "9 slots, 3 threads" in worker.output
    assert worker.output.count("worker shop-1-") >= int(processes)


def test_a_variable_that_cannot_be_read_is_named(start: Start) -> None:
    worker = start("worker", "shop:app", HEADRACE_THREADS="several")
    assert worker.ended() == 2
    assert "'--threads' (env var: 'HEADRACE_THREADS')" in worker.output
