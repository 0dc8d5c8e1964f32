"""No text in a store steers the terminal of who looks at it, by whichever command."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from headrace import Headrace
from headrace.admin.actions import ActionRecord
from headrace.cli import main
from headrace.core import codec
from headrace.core.job import ids
from headrace.core.job.constraints import Constraints
from headrace.core.job.envelope import Overrides, encode_envelope
from headrace.core.job.history import Attempt, History
from headrace.core.job.outcome import Done
from headrace.core.job.parcel import Parcel
from headrace.core.job.progress import Progress, encode_progress
from headrace.core.job.verdict import done_verdict
from headrace.core.workers import WORKERS, WorkerRecord, encode_record
from headrace.store.contract import Settlement, Store
from headrace.store.topics import Group, Position
from headrace.store.values import Report
from tests.admin.burying import bury
from tests.cli.commands import names_of_commands
from tests.cli.test_top import terminal
from tests.servers import free_port

# Clears the screen, names the window, rings, turns red, turns writing round, forges a line.
EVIL = "evil\x1b[2J\x1b]0;owned\x07\x9b31m\u202e\r\nforged"
STEERS = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b\u202a-\u202e\u2066-\u2069]")
LONG = 120.0


def envelope(job_id: bytes, task: str = EVIL) -> bytes:
    overrides = Overrides(
        headers={EVIL: EVIL}, key=EVIL, kind=EVIL, source=EVIL, correlation=EVIL, tags=(EVIL,)
    )
    return encode_envelope(job_id, task, codec.encode({EVIL: EVIL}), overrides)


def parcel(job_id: bytes | None = None, task: str = EVIL, **others: object) -> Parcel:
    job_id = job_id or ids.new_id()
    return Parcel(job_id, envelope(job_id, task), **others)  # type: ignore[arg-type]


async def fill(app: Headrace) -> None:
    """Every kind of thing that commands show, with this text wherever the store takes one."""
    store = (await app.session()).store
    lane = Constraints(lane=f"key:{EVIL}", unique=EVIL)
    for queue in ("mail", EVIL):
        attempt = Attempt(1, 1_000_000, 1_002_500, EVIL, EVIL, EVIL, f"{EVIL}\n{EVIL}")
        dead = [envelope(ids.to_id(f"dead-{queue[:4]}"), EVIL)]
        await bury(app, dead, queue=queue, reason=EVIL, history=History((attempt,), 1))
        await run_one(store, queue)
        await store.append(
            queue, [parcel(), parcel(delay_ms=3_600_000), *(parcel(constraints=lane) for _ in "ab")]
        )
        await store.pause(queue, EVIL)
    await store.kv_set(WORKERS, EVIL, encode_record(worker()), ttl=3600)
    action = ActionRecord(await store.time_ms(), EVIL, EVIL, EVIL, EVIL, EVIL, EVIL, [EVIL])
    for name in (EVIL, f"{EVIL} again"):
        await store.record("actions", name, codec.encode(action), keep=3600, most=10)
    for log in ("@orders", f"@{EVIL}"):
        for group in ("billing", EVIL):
            await store.join(f"{group}{log}", Group(), Position("start"))
        await store.publish(log, [parcel(task=log), parcel(task=log)])


async def run_one(store: Store, queue: str) -> None:
    """A job that is done, after a report, and one that has been given back after one."""
    done = ids.to_id(f"done-{queue[:4]}")
    await store.append(queue, [parcel(done), parcel(ids.to_id(f"runs-{queue[:4]}"))])
    consumer = store.consumer(f"{EVIL}{queue[:4]}", [queue], 3600.0)
    first, second = await consumer.fetch(2, 1.0)
    progress = encode_progress(Progress(0.5, EVIL))
    for delivery in (first, second):
        delivery.job_id = ids.to_id(f"{'done' if delivery is first else 'runs'}-{queue[:4]}")
        report = Report(delivery.job_id, progress, (EVIL, EVIL))
        await store.report(queue, [report])
    verdict = done_verdict(codec.encode(EVIL))
    await consumer.settle(queue, [Settlement(first, Done(verdict, 3_600_000))])
    await consumer.close()


def worker() -> WorkerRecord:
    return WorkerRecord(
        name=EVIL,
        host=EVIL,
        pid=1,
        started_ms=1_000_000,
        queues={EVIL: 1},
        concurrency=1,
        threads=1,
        processes=1,
        version=EVIL,
        python=EVIL,
        running=0,
        beat_ms=1_000_000,
    )


@pytest.fixture(params=["sqlite", "redis"])
def hostile(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of a store that is full of it."""
    url = f"sqlite:///{tmp_path}/jobs.db"
    if request.param == "redis":
        url = request.getfixturevalue("redis_url")
    monkeypatch.setenv("HEADRACE_URL", url)
    monkeypatch.setenv("HEADRACE_NAMESPACE", request.getfixturevalue("namespace"))

    async def filled() -> None:
        async with Headrace() as app:
            await fill(app)

    asyncio.run(filled())
    return url


# Arguments by which each command shows the most.
COMMANDS: dict[str, list[list[str]]] = {
    "actions": [[], ["--limit", "1"]],
    "check": [[]],
    "dead groups": [[]],
    "dead list": [[], ["-q", EVIL]],
    "dead show": [["dead-mail"], ["dead-evil"]],
    "jobs list": [[], ["--state", "done"], ["--task", EVIL], ["-q", EVIL]],
    "jobs show": [["done-mail"], ["runs-mail"], [EVIL]],
    "jobs log": [["runs-mail"]],
    "jobs why": [["runs-mail"], ["dead-evil"]],
    "jobs watch": [["done-mail"]],
    "jobs move": [["runs-mail", "--to", EVIL]],
    "jobs resume": [["runs-mail"]],
    "jobs run-now": [["runs-mail"]],
    "jobs forget": [["done-evil"]],
    "jobs cancel": [["runs-mail"], ["--queue", EVIL, "--yes"]],
    "queues list": [[]],
    "queues pause": [[EVIL]],
    "queues resume": [[EVIL]],
    "queues remove": [[EVIL, "--yes"]],
    "schedules list": [[]],
    "schedules pause": [[EVIL]],
    "schedules resume": [[EVIL]],
    "schedules run": [[EVIL]],
    "schedules remove": [[EVIL]],
    "stats": [[], ["-q", EVIL]],
    "dead replay": [["dead-mail", "--set", EVIL], ["dead-mail"]],
    "dead purge": [["dead-evil", "--yes"], [EVIL, "--yes"]],
    "topics list": [[]],
    "topics show": [["orders"], [EVIL]],
    "topics read": [["orders"], [EVIL]],
    "topics keys": [["orders", EVIL]],
    "topics free": [["orders", "billing", EVIL]],
    "topics publish": [["orders", EVIL]],
    "topics rewind": [["orders", EVIL, "--to", "start"]],
    "topics remove": [["orders", EVIL, "--yes"]],
    "workers list": [[]],
    "workers stop": [[EVIL]],
}
# They show nothing of the store, or go on until they are stopped: `top` and `dev`, which is also a
# worker, are below, and the dashboard has its own tests.
OTHERS = {"asyncapi", "bench", "dashboard", "demo", "dev", "top", "worker"} | {
    f"outbox {verb}" for verb in ("ddl", "failed", "relay", "retry")
}

SHOWING = ("jobs list", "dead list", "dead groups", "queues list", "topics list", "stats")
"""Commands that show what is in all queues."""

# One process for all: it takes long to start one.
RUNS = """
import json, sys
from headrace.cli import main
for command in json.loads(sys.stdin.readline()):
    print(f"--- {json.dumps(command)}", flush=True)
    try:
        main.main(command)
    except SystemExit as ended:
        print(f"=== {ended.code}", flush=True)
"""


def test_every_command_is_tried() -> None:
    assert set(names_of_commands(main)) == set(COMMANDS) | OTHERS


def drawn(commands: list[list[str]], folder: Path) -> str:
    """What a terminal gets from these commands."""
    ours, theirs = pty.openpty()
    pieces: list[bytes] = []

    def listen() -> None:
        try:
            while piece := os.read(ours, 65_536):
                pieces.append(piece)
        except OSError:
            # The other end is closed.
            pass

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    try:
        subprocess.run(
            [sys.executable, "-c", RUNS],
            input=json.dumps(commands).encode() + b"\n",
            stdout=theirs,
            stderr=theirs,
            cwd=folder,
            env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "200"},
            timeout=LONG,
            check=True,
        )
    finally:
        os.close(theirs)
        listener.join(LONG)
        os.close(ours)
    return b"".join(pieces).decode().replace("\r\n", "\n")


def test_no_command_lets_a_store_steer_the_terminal(hostile: str, tmp_path: Path) -> None:
    commands = [
        [*name.split(), *arguments] for name, calls in COMMANDS.items() for arguments in calls
    ]
    text = drawn(commands, tmp_path)
    parts = text.split("--- ")[1:]
    assert len(parts) == len(commands)
    said = [part.split("\n", 1) for part in parts]
    assert [(command, output) for command, output in said if STEERS.search(output)] == []
    assert [(command, output) for command, output in said if "\nforged" in output] == []
    assert [output for _, output in said if "Traceback" in output] == []
    assert sum("evil" in output for _, output in said) > 30
    # Names that are not valid, of queues and of groups, keep nobody from seeing the rest.
    shows = [each for each in said if " ".join(json.loads(each[0])[:2]).startswith(SHOWING)]
    assert [each for each in shows if "=== 2" in each[1]] == []


def test_top_lets_no_store_steer_the_terminal(hostile: str) -> None:
    with terminal("top", "--url", hostile) as top:
        top.shows("evil\\x1b[2J")
        top.types("q")
        assert top.ended() == 0
    assert b"owned\x07" not in top.drawn
    assert b"\x1b]0;" not in top.drawn


SHOP = """
from headrace import Headrace, Retry

app = Headrace()

@app.task(queue="mail", retry=Retry(1))
async def send(text: str) -> None:
    raise ValueError(text)
"""


def test_dev_lets_no_store_steer_the_terminal(
    hostile: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mill.py").write_text(SHOP)
    monkeypatch.chdir(tmp_path)
    # Its own colours would be taken for theirs.
    monkeypatch.setenv("NO_COLOR", "1")

    async def send_one() -> None:
        async with Headrace() as app:
            store = (await app.session()).store
            id = ids.new_id()
            await store.append(
                "mail", [Parcel(id, encode_envelope(id, "send", codec.encode({"text": EVIL})))]
            )

    asyncio.run(send_one())
    with terminal("dev", "mill:app", "--port", str(free_port())) as dev:
        dev.shows("ValueError: evil\\x1b[2J")
        dev.types("\x03")
        dev.shows("all stopped")
        assert dev.ended() == 0
    text = dev.drawn.decode().replace("\r\n", "\n")
    assert [line for line in text.split("\n") if STEERS.search(line)] == []
    assert "\nforged" not in text
