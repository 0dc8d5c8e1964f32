"""`headrace bench --peers`: the same functions, drained by other queues on the same server."""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Sequence
from contextlib import closing, nullcontext
from pathlib import Path

import msgspec
from redis import Redis

from headrace.benchmark.figures import Figure, Report, Sizes, middle
from headrace.benchmark.jobs import fresh_app
from headrace.benchmark.loop import run_quickly
from headrace.benchmark.peers.environments import cache_folder, python_with, version_of
from headrace.benchmark.processes import private_redis
from headrace.benchmark.runners import RunnerDrains
from headrace.errors import ConfigError


class Peer(msgspec.Struct, frozen=True):
    """Another queue: its package, what pip installs for it, and how many times its rate is wanted;
    None if nothing is."""

    name: str
    packages: Sequence[str]
    wanted: float | None = None

    @property
    def program(self) -> Path:
        return Path(__file__).with_name(f"drain_{self.name}.py")


PEERS = (
    Peer("dramatiq", ("dramatiq[redis]", "hiredis"), 8.0),
    Peer("huey", ("huey", "redis", "hiredis")),
)


def compare(
    url: str | None, sizes: Sizes, report: Report, folder: Path | None = None
) -> list[Figure]:
    """Plain functions that do nothing: Headrace with default options, to each other queue, all with
    one worker process. They take turns."""
    folder = folder or cache_folder()
    pythons = {}
    for peer in PEERS:
        report(f"installing {peer.name}, unless it is there")
        pythons[peer] = python_with(folder, peer.name, peer.packages)
    ours: list[float] = []
    theirs: dict[Peer, list[float]] = {peer: [] for peer in PEERS}
    with nullcontext(url) if url else private_redis() as server:
        for _ in range(sizes.repeats):
            report("headrace")
            ours.append(run_quickly(_drained(server, sizes.peers)))
            for peer, python in pythons.items():
                report(peer.name)
                theirs[peer].append(_drained_by(peer, python, server, sizes.peers))
    return [
        Figure(
            f"plain functions, to {peer.name} {version_of(pythons[peer], peer.name)}",
            middle(ours),
            "/s",
            middle(rates),
            peer.wanted,
        )
        for peer, rates in theirs.items()
    ]


async def _drained(url: str, count: int) -> float:
    async with fresh_app(url, events=True) as app:
        drains = RunnerDrains(app)
        return await drains.drain(drains.in_threads, count)


def _drained_by(peer: Peer, python: Path, url: str, count: int) -> float:
    # The server may be one on which the same queue is in use.
    name = f"headrace-bench-{uuid.uuid4().hex[:8]}"
    command = [str(python), str(peer.program), url, name, str(count)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    with closing(Redis.from_url(url)) as redis:
        for key in redis.scan_iter(f"*{name}*"):
            redis.delete(key)
    if ended.returncode:
        raise ConfigError(f"{peer.name} failed: {ended.stderr.strip() or 'no reason given'}")
    return float(ended.stdout)
