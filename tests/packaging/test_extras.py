"""What is installed: little for those who use an SQLite file, everything with `headrace[all]`."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
# What the extras bring, as Python imports it.
OPTIONAL = (
    "google.protobuf", "h11", "hiredis", "itsdangerous", "jinja2", "markupsafe", "opentelemetry",
    "prometheus_client", "redis", "rich", "sqlalchemy", "starlette", "textual", "uvicorn", "uvloop",
    "zstandard",
)  # fmt: skip
# Those of a framework, which their users have anyway.
FRAMEWORKS = {"django", "flask", "pytest"}
WITHOUT_EXTRAS = f"import sys\nsys.modules.update(dict.fromkeys({OPTIONAL!r}))\n"


def run(program: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run it where none of the extras can be imported."""
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_EXTRAS + program],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
    )


def extras_in(requirement: str) -> list[str]:
    return requirement.removeprefix("headrace[").removesuffix("]").split(",")


def test_all_brings_every_extra_but_those_of_developers_and_of_frameworks() -> None:
    (everything,) = EXTRAS["all"]
    assert extras_in(everything) == sorted(EXTRAS.keys() - {"all", "dev"} - FRAMEWORKS)


def test_developers_have_every_extra_and_try_the_lowest_versions_of_each() -> None:
    every = ["all", *sorted(FRAMEWORKS)]
    assert extras_in(EXTRAS["dev"][0]) == every
    assert re.findall(r"--extra (\w+)", (ROOT / "tools/setup").read_text()) == every


def test_jobs_run_on_sqlite_without_any_extra(tmp_path: Path) -> None:
    done = run(SHOP, tmp_path)
    assert (done.returncode, done.stdout.split()) == (0, ["5"]), done.stderr


def test_redis_without_its_driver_is_refused_when_declared(tmp_path: Path) -> None:
    done = run(REFUSED, tmp_path)
    assert done.stdout == (
        "the store redis://cache:6379/0 needs redis and hiredis: pip install 'headrace[redis]'\n"
    ), done.stderr


def test_what_needs_an_extra_says_how_to_install_it(tmp_path: Path) -> None:
    done = run(FEATURES, tmp_path)
    assert re.findall(r"pip install 'headrace\[(\w+)\]'", done.stdout) == [
        "dashboard", "metrics", "tracing", "tracing", "zstd", "protobuf",
    ], done.stdout + done.stderr  # fmt: skip


def test_the_benchmark_without_a_driver_says_what_to_install(tmp_path: Path) -> None:
    done = run("from headrace.cli import main\nsys.argv[1:] = ['bench']\nmain()", tmp_path)
    assert done.returncode == 2
    assert "pip install 'headrace[redis]'" in done.stderr
    assert "Traceback" not in done.stderr


SHOP = """
import asyncio
from headrace import Headrace

app = Headrace()


@app.task
def add(a: int, b: int) -> int:
    return a + b


async def main() -> None:
    async with app, app.worker():
        print(await (await add.enqueue(2, 3)).result(60))


asyncio.run(main())
"""
REFUSED = """
from headrace import Headrace
from headrace.errors import ConfigError

try:
    Headrace("redis://cache:6379/0")
except ConfigError as error:
    print(error)
"""
FEATURES = """
from importlib import import_module
from headrace import Headrace, Tracing
from headrace.errors import ConfigError

app = Headrace()
for use in (
    lambda: import_module("headrace.web").dashboard(app),
    lambda: import_module("headrace.exposition.prometheus"),
    lambda: Tracing(),
    lambda: import_module("headrace.metrics.opentelemetry"),
    lambda: Headrace(compress="zstd"),
    lambda: app.topic("orders", object, codec="protobuf"),
):
    try:
        use()
    except ConfigError as error:
        print(error)
"""
