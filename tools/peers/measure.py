"""Measure Headrace beside other queues: sending, and draining with the worker that each brings.

    python tools/peers/measure.py            # needs redis-server and a package index

Each system has a virtual environment of its own, below ~/.cache. They take turns on one private
Redis server, so that what else the machine does meets all alike. On a machine that is not idle,
compare CPU, not time.
"""

import argparse
import dataclasses
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PROGRAMS = Path(__file__).parent / "programs"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headrace" / "measured"
TICK = os.sysconf("SC_CLK_TCK")
LONG = 300.0


@dataclasses.dataclass(frozen=True)
class System:
    """A system with the command of its worker: as it comes, and as `bare` as the others."""

    name: str
    packages: tuple[str, ...]
    usual: str
    bare: str
    jobs: int
    kinds: tuple[str, ...] = ("plain",)


SYSTEMS = (
    System(
        "headrace",
        (f"{Path(__file__).parents[2]}[all]",),
        "headrace worker jobs_headrace:app",
        "headrace worker jobs_headrace:app",
        60_000,
        ("plain", "coroutine"),
    ),
    System(
        "celery",
        ("celery[redis]", "hiredis"),
        "celery -A jobs_celery worker",
        "celery -A jobs_celery worker -P threads -c 8 --without-gossip --without-mingle",
        3_000,
    ),
    System(
        "rq",
        ("rq", "hiredis"),
        "rq worker --url {url}",
        "rq worker --url {url} --worker-class rq.SimpleWorker --quiet",
        200,
    ),
    System(
        "dramatiq",
        ("dramatiq[redis]", "hiredis"),
        "dramatiq jobs_dramatiq",
        "dramatiq jobs_dramatiq -p 1",
        6_000,
        ("plain", "coroutine"),
    ),
    System(
        "taskiq",
        ("taskiq", "taskiq-redis", "hiredis"),
        "taskiq worker jobs_taskiq:broker",
        "taskiq worker jobs_taskiq:broker -w 1 --log-level WARNING",
        3_000,
        ("plain", "coroutine"),
    ),
    System(
        "arq",
        ("arq",),
        "arq jobs_arq.WorkerSettings",
        "arq jobs_arq.WorkerSettings",
        600,
        ("coroutine",),
    ),
)


@dataclasses.dataclass(frozen=True)
class Result:
    """Jobs per second, and microseconds of CPU for each job."""

    send_rate: float
    send_cpu: float
    rate: float
    worker_cpu: float
    redis_cpu: float


def python_of(system: System) -> Path:
    home = CACHE / f"{system.name}-{sys.version_info.major}.{sys.version_info.minor}"
    python = home / "bin" / "python"
    if not (home / ".ready").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(home)], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *system.packages], check=True)
        (home / ".ready").touch()
    return python


def version_of(python: Path, package: str) -> str:
    code = f"from importlib.metadata import version; print(version({package!r}))"
    said = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    return said.stdout.strip()


@contextmanager
def redis_server(folder: str) -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = ["redis-server", "--port", str(port), "--save", "", "--dir", folder]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        while True:
            try:
                ask(port, "PING")
                break
            except OSError:
                time.sleep(0.05)
        yield port
    finally:
        server.terminate()
        server.wait()


def ask(port: int, *words: str) -> str:
    with socket.create_connection(("127.0.0.1", port)) as link:
        link.sendall(" ".join(words).encode() + b"\r\nQUIT\r\n")
        return b"".join(iter(lambda: link.recv(65536), b"")).decode()


def redis_cpu(port: int) -> float:
    said = dict(line.split(":", 1) for line in ask(port, "INFO", "cpu").split() if ":" in line)
    return float(said["used_cpu_sys"]) + float(said["used_cpu_user"])


def cpu_of(root: int) -> float:
    """Seconds of a process and all below it, those that have ended included."""
    parents: dict[int, int] = {}
    used: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                fields = (entry / "stat").read_text().rpartition(") ")[2].split()
            except OSError:
                continue
            parents[int(entry.name)] = int(fields[1])
            used[int(entry.name)] = sum(map(int, fields[11:15]))

    def below(pid: int) -> bool:
        while pid in parents and pid != root:
            pid = parents[pid]
        return pid == root

    return sum(ticks for pid, ticks in used.items() if below(pid)) / TICK


def measure(system: System, kind: str, settings: str, port: int, folder: str) -> Result:
    ask(port, "FLUSHALL")
    url = f"redis://127.0.0.1:{port}/0"
    runs = Path(folder, "runs")
    runs.write_bytes(b"")
    python = python_of(system)
    peers = {"PEERS_URL": url, "PEERS_RUNS": str(runs), "PEERS_SETTINGS": settings}
    environment = {**os.environ, **peers, "PYTHONPATH": str(PROGRAMS)}
    send = [python, str(PROGRAMS / f"jobs_{system.name}.py"), kind, str(system.jobs)]
    sent = subprocess.run(
        send, env=environment, cwd=folder, check=True, capture_output=True, text=True
    )
    took, busy = map(float, sent.stdout.split())
    command = (system.usual if settings == "usual" else system.bare).format(url=url).split()
    command[0] = str(python.with_name(command[0]))
    with Path(folder, "log").open("wb") as log:
        worker = subprocess.Popen(
            command, env=environment, cwd=folder, stdout=log, stderr=log, start_new_session=True
        )
    try:
        rate, mine, its = drained(worker.pid, system.jobs, runs, port)
    finally:
        worker.send_signal(signal.SIGTERM)
        try:
            worker.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(worker.pid, signal.SIGKILL)
            worker.wait()
    return Result(1 / took, busy * 1e6, rate, mine, its)


def drained(pid: int, jobs: int, runs: Path, port: int) -> tuple[float, float, float]:
    """From the moment a tenth has run, so that start-up does not count."""
    wait_for(runs, jobs // 10)
    first, began = runs.stat().st_size, time.perf_counter()
    mine, its = cpu_of(pid), redis_cpu(port)
    wait_for(runs, jobs)
    count, took = jobs - first, time.perf_counter() - began
    return (
        count / took,
        (cpu_of(pid) - mine) / count * 1e6,
        (redis_cpu(port) - its) / count * 1e6,
    )


def wait_for(runs: Path, size: int) -> None:
    until = time.perf_counter() + LONG
    while runs.stat().st_size < size:
        if time.perf_counter() > until:
            raise SystemExit(f"only {runs.stat().st_size} of {size} jobs have run")
        time.sleep(0.002)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", help="names of systems, with commas")
    parser.add_argument("--jobs", type=float, default=1.0, help="times the usual number")
    options = parser.parse_args()
    systems = [
        dataclasses.replace(system, jobs=int(system.jobs * options.jobs))
        for system in SYSTEMS
        if not options.only or system.name in options.only.split(",")
    ]
    versions = {system.name: version_of(python_of(system), system.name) for system in systems}
    found: dict[str, list[Result]] = {}
    with tempfile.TemporaryDirectory() as folder, redis_server(folder) as port:
        for _ in range(options.rounds):
            for settings in ("usual", "bare"):
                for system in systems:
                    for kind in system.kinds:
                        name = f"{settings} {kind} {system.name}"
                        result = measure(system, kind, settings, port, folder)
                        found.setdefault(name, []).append(result)
                        show(name, result)
    middle = {
        name: Result(*map(statistics.median, zip(*map(dataclasses.astuple, results), strict=True)))
        for name, results in found.items()
    }
    sys.stdout.write("\nmedians\n")
    for name, result in sorted(middle.items()):
        show(name, result)
    sys.stdout.write(json.dumps({"versions": versions, "cpus": os.cpu_count()}) + "\n")


def show(name: str, result: Result) -> None:
    numbers = dataclasses.asdict(result)
    sys.stdout.write(f"{name:28}" + "".join(f"  {k} {v:,.0f}" for k, v in numbers.items()) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
