"""Imports point down: each room of the house may use those below it and no other."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.house.package import modules

BASE = {"errors", "core"}
CONTRACT = BASE | {
    "store.contract",
    "store.deaths",
    "store.fact_block",
    "store.history",
    "store.loop_local",
    "store.oddities",
    "store.topics",
    "store.flow_values",
    "store.queue_values",
    "store.values",
}

# A room: what it may import. The longest name that fits a module is its room; "" is `headrace`.
ROOMS: dict[str, set[str]] = {
    "errors": set(),
    "core": {"errors"},
    "store": set(),
    "store.contract": BASE
    | {"store.deaths", "store.flow_values", "store.queue_values", "store.topics", "store.values"},
    "store.deaths": BASE,
    "store.fact_block": BASE | {"store.values"},
    "store.history": BASE | {"store.fact_block", "store.values"},
    "store.loop_local": BASE,
    "store.oddities": set(),
    "store.queue_values": BASE,
    "store.topics": BASE | {"store.values"},
    "store.flow_values": BASE,
    "store.values": BASE,
    "store.sqlite": CONTRACT,
    "store.redis": CONTRACT,
    "store.url": CONTRACT | {"store.sqlite", "store.redis"},
    "client": CONTRACT,
    "audit": BASE | {"client"},
    "middleware": BASE | {"audit", "client"},
    "metrics": BASE,
    "worker": CONTRACT | {"audit", "client", "middleware", "metrics"},
    "admin": CONTRACT | {"client"},
    "settings": BASE | {"store.url"},
    "override": CONTRACT | {"client", "settings", "store.url"},
    "app": CONTRACT
    | {"admin", "audit", "client", "metrics", "middleware", "override", "settings", "store.url"}
    | {"testing", "worker"},
    "exposition": BASE | {"admin", "client", "metrics"},
    "exposition.tracing": BASE | {"audit", "client", "middleware"},
    "web": BASE | {"app", "client", "admin", "exposition"},
    "top": BASE | {"admin"},
    "integrations": BASE | {"app", "client", "admin"},
    "": CONTRACT
    | {"web", "app", "audit", "client", "middleware", "worker", "admin"}
    | {"exposition", "exposition.tracing"},
    "outbox": CONTRACT | {"app", "client", "middleware", "store.topics", "worker"},
    # Below the app, which makes a test kit; but for those that make an app.
    "testing": CONTRACT
    | {
        "admin",
        "client",
        "middleware",
        "override",
        "testing.conformance",
        "testing.perform.recorded_context",
    }
    | {"worker"},
    "testing.perform.recorded_context": CONTRACT | {"app", "client"},
    "testing.conformance": CONTRACT | {"", "app", "client", "worker", "admin"},
    "demo": BASE | {"", "client"},
    "benchmark": BASE | {"", "client", "metrics", "worker"},
    "cli": BASE
    | {"", "client", "worker", "admin", "benchmark", "demo", "outbox", "store.url"}
    | {"exposition", "metrics", "middleware", "top", "web"},
    "__main__": {"cli"},
}


def imports(tree: ast.AST) -> Iterator[str]:
    """What a module imports of headrace, anywhere in it, at run time or for the type checker."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (
                alias.name for alias in node.names if alias.name.split(".")[0] == "headrace"
            )
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "imports are absolute"
            if (node.module or "").split(".")[0] == "headrace":
                yield from (f"{node.module}.{alias.name}" for alias in node.names)


def room_of(module: str) -> str:
    parts = module.split(".") if module else []
    names = [".".join(parts[:length]) for length in range(len(parts), 0, -1)]
    return next((name for name in names if name in ROOMS), "")


def test_imports_point_down() -> None:
    upward = {}
    for module in modules():
        room = room_of(module.name)
        for target in imports(module.tree):
            there = room_of(target.removeprefix("headrace").removeprefix("."))
            if there not in ROOMS[room] | {room}:
                upward[module.name, there] = target
    assert not upward


def test_no_modules_import_one_another_in_a_circle() -> None:
    assert not knots()


def knots() -> list[list[str]]:
    """Modules that import one another, directly or through others, at run time or for typing."""
    graph = import_graph()
    reached = {name: reachable(graph, name) for name in graph}
    found: dict[frozenset[str], list[str]] = {}
    for name, others in reached.items():
        if name in others:
            knot = sorted(other for other in others if name in reached[other])
            found[frozenset(knot)] = knot
    return list(found.values())


def import_graph() -> dict[str, set[str]]:
    names = {module.name for module in modules()}
    graph: dict[str, set[str]] = {}
    for module in modules():
        targets = {t.removeprefix("headrace").removeprefix(".") for t in imports(module.tree)}
        # What is imported is a module, or a name of the module before the last dot.
        found = {target if target in names else target.rpartition(".")[0] for target in targets}
        graph[module.name] = (found & names) - {module.name}
    return graph


def reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    todo = [start]
    while todo:
        fresh = graph[todo.pop()] - seen
        seen |= fresh
        todo += fresh
    return seen


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
    # The benchmark measures the bare server and the bare file beside Headrace.
    homes = {
        "sqlite3": {"store.sqlite", "outbox", "benchmark"},
        "redis": {"store.redis", "benchmark"},
    }
    homes["hiredis"] = homes["redis"]
    for module in modules():
        for driver in module.packages_imported & homes.keys():
            assert room_of(module.name) in homes[driver], f"{module.name} imports {driver}"
