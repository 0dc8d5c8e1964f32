"""Worker processes to be killed, stopped and replaced, and the facts that they leave behind."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from headrace import Headrace, StoreUnavailable
from tests import forked
from tests.faults import shop
from tests.standstill import Standstill

# Far beyond what anything here takes on a slow machine.
LONG = 60.0
# A lease that no worker loses since the machine is busy, for tests in which none may.
CALM = 3.0
# What a worker logs when it begins to read.
BEGUN = " runs "


async def eventually(
    what: str, condition: Callable[[], object | Awaitable[object]], within: float = LONG
) -> None:
    """Wait until the condition holds."""
    ends_at = time.monotonic() + within
    while True:
        answer = condition()
        if isinstance(answer, Awaitable):
            answer = await answer
        if answer:
            return
        assert time.monotonic() < ends_at, f"not within {within:g} s: {what}"
        await asyncio.sleep(0.02)


class Fact(NamedTuple):
    what: str
    job: str
    attempt: int
    fence: int
    pid: int


def facts_in(lines: str) -> list[Fact]:
    rows = [line.split() for line in lines.splitlines()]
    whole = [row for row in rows if len(row) == 6 and row[5] == "."]
    return [Fact(row[0], row[1], int(row[2]), int(row[3]), int(row[4])) for row in whole]


class Crew:
    """Processes that run `shop` on one store, and an app here that sends to them. Leaving the crew
    ends every process that is still there."""

    def __init__(
        self,
        folder: Path,
        url: str,
        namespace: str,
        *,
        lease: float = 1.0,
        crash_limit: int | None = None,
    ) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.facts_file = folder / "facts.txt"
        self.app = mirrored(url, namespace, lease, crash_limit)
        self.processes: list[WorkerProcess] = []
        self._facts: list[Fact] = []
        self._read = 0
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("HEADRACE_", "SHOP"))}
        self.env = {
            **inherited,
            "HEADRACE_URL": url,
            "HEADRACE_NAMESPACE": namespace,
            "HEADRACE_LEASE": str(lease),
            "SHOP_FACTS": str(self.facts_file),
            "PYTHONPATH": str(forked.ROOT),
        }
        if crash_limit is not None:
            self.env["HEADRACE_CRASH_LIMIT"] = str(crash_limit)

    def start(
        self, *arguments: str, kill: str = "", app: str = "tests.faults.shop:app"
    ) -> WorkerProcess:
        """One more worker; with `kill` it ends itself at that moment."""
        log = self.folder / f"worker-{len(self.processes)}.log"
        command = ["-m", "headrace", "worker", app, *arguments]
        process = WorkerProcess(command, {**self.env, "SHOP_KILL": kill}, log)
        self.processes.append(process)
        return process

    def run(self, what: str, *arguments: str, kill: str = "") -> WorkerProcess:
        """Another program of this package, on the same store."""
        log = self.folder / f"{what}-{len(self.processes)}.log"
        command = ["-m", f"tests.faults.{what}", *arguments]
        process = WorkerProcess(command, {**self.env, "SHOP_KILL": kill}, log)
        self.processes.append(process)
        return process

    @property
    def alive(self) -> list[WorkerProcess]:
        return [process for process in self.processes if process.alive]

    @property
    def at_work(self) -> list[WorkerProcess]:
        return [process for process in self.processes if process.alive and process.is_at_work]

    @property
    def facts(self) -> list[Fact]:
        if self.facts_file.exists():
            with self.facts_file.open("rb") as file:
                file.seek(self._read)
                fresh = file.read()
            # The last line may be half written.
            fresh = fresh[: fresh.rfind(b"\n") + 1]
            self._read += len(fresh)
            self._facts += facts_in(fresh.decode())
        return self._facts

    def forget_facts(self) -> None:
        self.facts_file.unlink(missing_ok=True)
        self._facts.clear()
        self._read = 0

    def jobs(self, what: str) -> list[str]:
        """The ids of the jobs of which this is known, as often as it is."""
        return [fact.job for fact in self.facts if fact.what == what]

    def runs(self) -> dict[str, list[Fact]]:
        """The beginnings of each job, in order."""
        runs: dict[str, list[Fact]] = defaultdict(list)
        for fact in self.facts:
            if fact.what == "begin":
                runs[fact.job].append(fact)
        return runs

    @property
    def logs(self) -> str:
        return "\n".join(process.log for process in self.processes)

    async def begun(self, *ids: str) -> None:
        await eventually("the jobs have begun", lambda: set(ids) <= set(self.jobs("begin")))

    async def known(self, what: str, count: int) -> None:
        await eventually(f"{count} jobs are {what}", lambda: len(self.jobs(what)) >= count)

    async def ended(self, ids: Iterable[str], within: float = LONG) -> None:
        wanted = set(ids)
        await eventually("the jobs have ended", lambda: wanted <= set(self.jobs("end")), within)

    async def idle(self, queue: str = "default", within: float = LONG) -> None:
        """Wait until no job is waiting, scheduled or running."""
        store = (await self.app.session()).store

        async def empty() -> bool:
            try:
                counts = await store.count(queue)
            except StoreUnavailable:
                return False
            return not (counts.waiting or counts.running or counts.scheduled)

        await eventually("the queue is empty", empty, within)

    async def dead(self, queue: str = "default") -> dict[str, str]:
        """The reason of each dead job."""
        return {info.id: info.reason for info in await self.app.admin.dead(queue, limit=10_000)}

    async def __aenter__(self) -> Crew:
        await self.app.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for process in self.processes:
            process.clean_up()
        await self.app.__aexit__(kind, error, traceback)


class WorkerProcess:
    """One `headrace worker`, alone in its process group."""

    def __init__(self, command: list[str], env: dict[str, str], log: Path) -> None:
        self._log = log
        with log.open("wb") as out:
            self._process = forked.start(
                *command, cwd=forked.ROOT, env=env, output=out, session=True
            )
        self.pid = self._process.pid
        self._standstill: Standstill | None = None

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    @property
    def is_at_work(self) -> bool:
        """Whether it has begun to read."""
        return BEGUN in self.log

    async def works(self) -> None:
        """Wait until it has begun to read."""
        await self.says(BEGUN)

    async def says(self, text: str) -> None:
        def said() -> bool:
            enough = text in self.log
            assert enough or self.alive, f"it ended and never said {text!r}:\n{self.log}"
            return enough

        await eventually(f"the worker says {text!r}", said)

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def stand_still(self) -> Standstill:
        """From now until the answer is told to end."""
        self._standstill = Standstill(self.pid)
        return self._standstill

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(LONG)

    async def ended(self) -> int:
        """Wait for its end; the exit code."""
        return await asyncio.to_thread(self._process.wait, LONG)

    async def stopped(self) -> int:
        """Tell it to end, and wait; the exit code."""
        self.send(signal.SIGTERM)
        return await self.ended()

    @property
    def peak_mib(self) -> int:
        """The most memory that it has used so far."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) // 1024

    def clean_up(self) -> None:
        if self._standstill is not None:
            self._standstill.end()
        if self.alive:
            self._process.kill()
        self._process.wait(LONG)
        for pid in _group(self.pid):
            os.kill(pid, signal.SIGKILL)


def is_alive(pid: int) -> bool:
    """Whether the process runs; one that ended and was not waited for yet does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def _group(leader: int) -> list[int]:
    """The living processes of the group that this one leads or led."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            state, _, group = (entry / "stat").read_text().rpartition(")")[2].split()[:3]
        except OSError:
            continue
        if int(group) == leader and state not in "ZX":
            found.append(int(entry.name))
    return found


def mirrored(url: str, namespace: str, lease: float, crash_limit: int | None = None) -> Headrace:
    """An app with the tasks of the shop, to send from here."""
    app = Headrace(url, namespace=namespace, lease=lease, crash_limit=crash_limit)
    for task in shop.app.tasks.values():
        declared = task.declared
        options: dict[str, Any] = {"queue": declared.queue, "retry": declared.retry}
        if declared.gathering is not None:
            options |= {"batch": declared.batch, "max_wait": declared.max_wait}
            options["batch_key"] = declared.gathering.key
        app.task(name=task.name, **options)(task.function)
    return app
