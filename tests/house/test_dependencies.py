"""Every package that ours imports is declared: for all, or by the extra of what needs it."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import pytest_headrace
from tests.house.package import Module, modules

REPOSITORY = Path(__file__).parents[2]
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]

# What each extra is for: modules, and those below them.
PARTS = {
    "dashboard": ("web",),
    "django": ("integrations.django",),
    "flask": ("integrations.flask",),
    "metrics": ("exposition.prometheus",),
    "protobuf": ("core.payload.content",),
    "pytest": ("testing.conformance", "pytest_headrace"),
    "redis": ("store.redis", "benchmark"),
    "sql": ("outbox",),
    "top": ("top",),
    "tracing": ("exposition.tracing", "metrics.opentelemetry"),
    "uvloop": ("benchmark.loop", "cli.processes.worker_process"),
    "zstd": ("core.payload.compression",),
}
# What the benchmark measures if it is there, or runs in an environment that it makes itself.
MEASURED = {
    "benchmark.features": "opentelemetry-sdk",
    "benchmark.peers.drain_dramatiq": "dramatiq",
    "benchmark.peers.drain_huey": "huey",
}
# Packages whose modules have another name; the longer name of two that begin alike comes first.
NAMED_OTHERWISE = {
    "google.protobuf": "protobuf",
    "opentelemetry.sdk": "opentelemetry-sdk",
    "opentelemetry": "opentelemetry-api",
}
LOWEST = r">=[\d.]+"


def below(name: str, part: str) -> bool:
    return name == part or name.startswith(f"{part}.")


def package_of(imported: str) -> str:
    """The package, as an index calls it, that has the module of this name."""
    named = (each for part, each in NAMED_OTHERWISE.items() if below(imported, part))
    return next(named, canonicalize_name(imported.partition(".")[0]))


def packages_of(module: Module) -> set[str]:
    """What a module imports, anywhere in it, that neither Python nor we bring."""
    names = [node.module or "" for node in module.nodes(ast.ImportFrom)]
    names += [alias.name for node in module.nodes(ast.Import) for alias in node.names]
    ours = sys.stdlib_module_names | {"headrace", "pytest_headrace"}
    return {package_of(name) for name in names if name.partition(".")[0] not in ours}


def all_modules() -> Iterator[Module]:
    """Those of the package, and the plugin beside it."""
    yield from modules()
    for path in Path(pytest_headrace.__file__).parent.rglob("*.py"):
        yield Module("pytest_headrace", path, ast.parse(path.read_text()))


def packages_in(requirements: list[str]) -> set[str]:
    return {canonicalize_name(Requirement(each).name) for each in requirements}


def test_every_import_is_declared_where_it_is_needed() -> None:
    for_all = packages_in(PROJECT["dependencies"])
    missing = {}
    for module in all_modules():
        extras = (
            packages_in(EXTRAS[extra])
            for extra, parts in PARTS.items()
            if any(below(module.name, part) for part in parts)
        )
        declared = for_all.union(*extras, {MEASURED.get(module.name)})
        missing[module.name] = packages_of(module) - declared
    assert {name: packages for name, packages in missing.items() if packages} == {}


def test_each_extra_is_for_a_part_that_there_is() -> None:
    assert PARTS.keys() == EXTRAS.keys() - {"all", "dev"}
    names = {module.name for module in all_modules()}
    assert {*MEASURED, *(part for parts in PARTS.values() for part in parts)} <= names


def bounds() -> dict[str, set[str]]:
    """The versions of each package that are allowed, by each declaration of it."""
    found: dict[str, set[str]] = {}
    for requirements in [PROJECT["dependencies"], *EXTRAS.values()]:
        for requirement in map(Requirement, requirements):
            name = canonicalize_name(requirement.name)
            found.setdefault(name, set()).add(str(requirement.specifier))
    del found["headrace"]
    return found


def test_a_package_has_one_lowest_version_wherever_it_is_declared() -> None:
    assert {name: said for name, said in bounds().items() if len(said) > 1} == {}


def test_a_package_has_a_lowest_version_and_no_highest() -> None:
    """An application can pin, but cannot lift a bound of ours."""
    odd = {name: said for name, (said, *_) in bounds().items() if not re.fullmatch(LOWEST, said)}
    assert odd == {}


def test_the_lowest_versions_are_those_that_the_page_about_security_gives_a_reason_for() -> None:
    page = (REPOSITORY / "docs/security.md").read_text()
    _, _, below_heading = page.partition("\n## Dependencies\n")
    rows = re.findall(r"^\| ([\w-]+) \| ([\d.]+) \|", below_heading, re.MULTILINE)
    assert rows
    said = bounds()
    assert [(name, version) for name, version in rows if said[name] != {f">={version}"}] == []
