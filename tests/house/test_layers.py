"""Imports point down: each room of the house may use those below it and no other."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.house.package import modules

BASE = {"errors", "core"}
CONTRACT = BASE | {
    "store.contract",
    "store.loops",
    "store.oddities",
    "store.topics",
    "store.values",
}

# A room: what it may import. The longest name that fits a module is its room; "" is `headrace`.
ROOMS: dict[str, set[str]] = {
    "errors": set(),
    "core": {"errors"},
    "store": set(),
    "store.contract": BASE | {"store.topics", "store.values"},
    "store.loops": set(),
    "store.oddities": set(),
    "store.topics": BASE | {"store.values"},
    "store.values": BASE,
    "store.sqlite": CONTRACT,
    "store.redis": CONTRACT,
    "store.url": CONTRACT | {"store.sqlite", "store.redis"},
    "client": CONTRACT,
    "audit": BASE | {"client"},
    "middleware": BASE | {"audit", "client"},
    "metrics": BASE,
    "outgoing": CONTRACT | {"client", "middleware"},
    "app": CONTRACT | {"audit", "client", "middleware", "outgoing", "store.url"},
    "worker": CONTRACT | {"audit", "client", "middleware", "metrics"},
    "admin": CONTRACT | {"client"},
    "exposition": BASE | {"admin", "metrics"},
    "exposition.tracing": BASE | {"audit", "client", "middleware"},
    "web": BASE | {"client", "admin", "exposition"},
    "top": BASE | {"admin"},
    "integrations": BASE | {"app", "client", "admin"},
    "": CONTRACT
    | {"web", "app", "audit", "client", "middleware", "worker", "admin"}
    | {"exposition", "exposition.tracing"},
    "outbox": CONTRACT | {"app", "client", "middleware", "store.topics", "worker"},
    "testing": CONTRACT | {"", "app", "client", "worker", "admin"},
    "demo": BASE | {"", "client"},
    "benchmark": BASE | {"", "client", "metrics", "worker"},
    "cli": BASE
    | {"", "client", "worker", "admin", "benchmark", "demo", "outbox", "store.url"}
    | {"exposition", "metrics", "top", "web"},
    "__main__": {"cli"},
}

# Names that only the type checker follows: the worker and the admin are handed an app.
TYPING: dict[str, set[str]] = {
    "worker": {"app"},
    "admin": {"app"},
    "exposition": {"app"},
    "web": {"app"},
}

# Imports that point up, each with the reason why it has to.
EXCEPTIONS = {
    ("client.job", "app"): "typing only: a job asks the store through the app that sent it",
    ("client.schedules", "app"): "typing only: schedules are kept in the store of their app",
    ("client.task", "app"): "typing only: a task sends through the app that declares it",
    (
        "client.topic",
        "app",
    ): "typing only: a topic is published to through the app that declares it",
    ("outgoing", "app"): "typing only: it sends what one app is given",
    ("app", "worker"): "inside app.worker(), so that a program that only sends loads no worker",
    ("app", "admin"): "inside app.admin, for the same reason",
}

Import = tuple[str, bool]


def imports(node: ast.AST, typing: bool = False) -> Iterator[Import]:
    """What a module imports of headrace, anywhere in it, and whether only for the type checker."""
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
        yield from ((name, typing) for name in names if name.split(".")[0] == "headrace")
    elif isinstance(node, ast.ImportFrom):
        assert not node.level, "imports are absolute"
        if (node.module or "").split(".")[0] == "headrace":
            yield from ((f"{node.module}.{alias.name}", typing) for alias in node.names)
    elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        for statement in node.body:
            yield from imports(statement, typing=True)
    else:
        for child in ast.iter_child_nodes(node):
            yield from imports(child, typing)


def room_of(module: str) -> str:
    parts = module.split(".") if module else []
    names = [".".join(parts[:length]) for length in range(len(parts), 0, -1)]
    return next((name for name in names if name in ROOMS), "")


def upward() -> dict[tuple[str, str], str]:
    """(module, room) of each import that the rooms do not allow."""
    found = {}
    for module in modules():
        room = room_of(module.name)
        allowed = ROOMS[room] | {room}
        for target, typing in imports(module.tree):
            there = room_of(target.removeprefix("headrace").removeprefix("."))
            if there not in allowed | (TYPING.get(room, set()) if typing else set()):
                found[module.name, there] = target
    return found


def test_imports_point_down() -> None:
    broken = {place: target for place, target in upward().items() if place not in EXCEPTIONS}
    assert not broken


def test_every_exception_is_still_needed() -> None:
    assert EXCEPTIONS.keys() <= upward().keys()


def test_every_module_is_in_a_room() -> None:
    homeless = [each.name for each in modules() if each.name and not room_of(each.name)]
    assert not homeless, "name the layer of these in ROOMS"


def test_nothing_in_core_does_io_or_knows_of_asyncio() -> None:
    forbidden = {
        "asyncio",
        "threading",
        "socket",
        "os",
        "sqlite3",
        "redis",
        "subprocess",
        "logging",
    }
    core = [module for module in modules() if room_of(module.name) == "core"]
    assert not [module.name for module in core if module.packages_imported & forbidden]


def test_drivers_are_known_only_to_their_store() -> None:
    # The benchmark measures the bare server beside Headrace.
    homes = {"sqlite3": {"store.sqlite", "outbox"}, "redis": {"store.redis", "benchmark"}}
    homes["hiredis"] = homes["redis"]
    for module in modules():
        for driver in module.packages_imported & homes.keys():
            assert room_of(module.name) in homes[driver], f"{module.name} imports {driver}"
