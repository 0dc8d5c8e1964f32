"""Modules that an app includes: imported when all tasks are needed, and not before."""

from __future__ import annotations

import importlib
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from headrace import ConfigError, Headrace
from headrace.cli.app_loader import load_app
from headrace.client.include.modules import ModuleFailed
from headrace.worker.processes.child import ChildRun
from headrace.worker.processes.messages import RunReply, RunRequest

JOBS = """
from headrace import Headrace

app = Headrace("sqlite:///jobs.db", include=["bakery.bread", "bakery.cake"])
"""
BREAD = """
from bakery.jobs import app

@app.task
async def bake(loaves: int) -> int:
    return loaves

@app.task(run_in="process")
def grind(sacks: int) -> int:
    return 2 * sacks
"""
CAKE = """
from bakery.bread import bake
from bakery.jobs import app

@app.task(queue="cake")
async def ice() -> None: ...
"""

MORE_CAKE = """
@app.task
async def layer() -> None: ...
"""


@pytest.fixture
def bakery(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program of three modules; two of them import the app."""
    monkeypatch.syspath_prepend(str(place))
    folder = place / "bakery"
    folder.mkdir()
    for name, text in (("jobs", JOBS), ("bread", BREAD), ("cake", CAKE)):
        (folder / f"{name}.py").write_text(text)
    return folder


def test_a_command_imports_what_the_app_includes(bakery: Path) -> None:
    assert sorted(load_app("bakery.jobs:app").tasks) == ["bake", "grind", "ice"]


def test_a_client_that_only_sends_imports_nothing_more(bakery: Path) -> None:
    from bakery.bread import app, bake  # type: ignore[import-not-found, unused-ignore]

    assert sorted(app.tasks) == ["bake", "grind"]
    assert bake.enqueue_sync(3).id
    app.portal.close()
    assert "bakery.cake" not in sys.modules
    assert app.worker().queues == ["cake", "default"]


def test_the_variable_names_modules_too(bakery: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (bakery / "jobs.py").write_text("from headrace import Headrace\napp = Headrace('memory://')\n")
    monkeypatch.setenv("HEADRACE_INCLUDE", "bakery.bread, bakery.cake")
    assert sorted(load_app("bakery.jobs:app").tasks) == ["bake", "grind", "ice"]


def test_a_module_that_is_not_there_is_named(place: Path) -> None:
    app = Headrace("memory://", include=["bakery.bred"])
    for _ in range(2):
        with pytest.raises(ConfigError, match=r"includes module 'bakery\.bred', and there is no"):
            app.worker()


def test_a_fault_inside_of_a_module_is_shown_with_its_place(
    bakery: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (bakery / "cake.py").write_text("import flour_and_water\n")
    said = "'bakery.cake', which the app includes, cannot be imported: ModuleNotFoundError: No mod"
    with pytest.raises(ConfigError, match=said):
        load_app("bakery.jobs:app")
    assert "import flour_and_water" in capsys.readouterr().err
    app = sys.modules["bakery.jobs"].app
    with pytest.raises(ModuleFailed, match=said) as raised:
        app.worker()
    assert isinstance(raised.value.__cause__, ModuleNotFoundError)


def test_a_wrong_declaration_in_a_module_names_it(bakery: Path) -> None:
    (bakery / "cake.py").write_text(BREAD)
    with pytest.raises(ConfigError, match=r"module 'bakery\.cake', which .* two tasks are named"):
        load_app("bakery.jobs:app")


def test_a_module_that_was_interrupted_is_named_from_then_on(bakery: Path) -> None:
    (bakery / "cake.py").write_text(CAKE + "raise KeyboardInterrupt\n")
    app = importlib.import_module("bakery.jobs").app
    with pytest.raises(KeyboardInterrupt):
        app.load()
    for _ in range(2):
        with pytest.raises(ConfigError, match=r"'bakery\.cake'.* interrupted.*KeyboardInterrupt"):
            app.load()


def test_a_module_whose_own_import_failed_before_is_said_to_come_again(bakery: Path) -> None:
    (bakery / "cake.py").write_text(CAKE + "raise LookupError('no oven')\n")
    with pytest.raises(LookupError):
        importlib.import_module("bakery.cake")
    app = sys.modules["bakery.jobs"].app
    with pytest.raises(ConfigError, match=r"module 'bakery\.cake' is imported for the second time"):
        app.load()


def test_a_module_that_loads_while_another_thread_loads_it_does_not_wait(bakery: Path) -> None:
    (bakery / "jobs.py").write_text(JOBS.replace("bakery.bread", "bakery.flour"))
    (bakery / "flour.py").write_text("from bakery.jobs import app\napp.loading.set()\n")
    waiting = "app.entered.set()\napp.loading.wait(30)\napp.load()\n"
    (bakery / "cake.py").write_text(f"{CAKE}{waiting}{MORE_CAKE}")
    app = importlib.import_module("bakery.jobs").app
    app.entered, app.loading = threading.Event(), threading.Event()
    importing = threading.Thread(target=importlib.import_module, args=["bakery.cake"], daemon=True)
    importing.start()
    assert app.entered.wait(30)
    loading = threading.Thread(target=app.load, daemon=True)
    loading.start()
    for thread in (importing, loading):
        thread.join(30)
        assert not thread.is_alive()
    assert sorted(app.tasks) == ["bake", "grind", "ice", "layer"]


PARTS = """
from headrace import Headrace
from bakery import part

app = Headrace("memory://")
app.include(part.tasks)
"""
PART = """
from headrace import Context, Tasks

tasks = Tasks(prefix="part")

@tasks.task(run_in="process")
def knead(ctx: Context, loaves: int) -> tuple[int, str]:
    return loaves, ctx.job.id
"""


async def test_a_process_of_its_own_finds_the_app_that_includes_its_task(bakery: Path) -> None:
    (bakery / "part.py").write_text(PART)
    (bakery / "parts.py").write_text(PARTS)
    app = load_app("bakery.parts:app")
    knead = sys.modules["bakery.part"].knead
    assert knead.included_by == ("bakery.parts",)
    async with app.worker(processes=1):
        job = await knead.enqueue(3)
        assert await job.result(60) == (3, job.id)


def test_a_process_says_where_its_task_should_be_included(bakery: Path) -> None:
    (bakery / "part.py").write_text(PART)
    (bakery / "parts.py").write_text("")
    request = RunRequest(
        *(1, "bakery.part", "knead", "default", b"", b"\x91\x01", 1, "w", 1, 0.0, {}, True),
        included_by=("bakery.parts",),
    )
    reply = ChildRun(request).reply()
    assert isinstance(reply, RunReply)
    assert (
        "imports bakery.parts: call app.include(tasks) there at the top level" in reply.error_text
    )


@pytest.mark.parametrize("wrong", ["shop.mail", ["shop.mail:tasks"], ["./mail.py"], [""], [5], 5])
def test_what_is_no_list_of_modules_is_refused(wrong: list[str]) -> None:
    with pytest.raises(ConfigError, match=r"include (must be a list|names)"):
        Headrace("memory://", include=wrong)


def test_a_worker_without_tasks_says_both_ways_to_have_some(bakery: Path) -> None:
    with pytest.raises(ConfigError, match=r"Headrace\(include=\[.*app\.include\(tasks\)"):
        Headrace("memory://").worker()
    (bakery / "cake.py").write_text("")
    app = Headrace("memory://", include=["bakery.cake"])
    with pytest.raises(ConfigError, match=r"bakery\.cake of include= .*app\.include\(tasks\)"):
        app.worker()


def test_a_module_whose_tasks_nothing_includes_is_named(bakery: Path) -> None:
    (bakery / "cake.py").write_text(PART)
    with pytest.raises(ConfigError, match=r"'bakery\.cake', .* on tasks, .* app\.include\(tasks\)"):
        load_app("bakery.jobs:app")


def test_a_script_that_its_modules_import_hears_that_there_are_two_apps(bakery: Path) -> None:
    script = JOBS + "if __name__ == '__main__':\n    app.worker()\n"
    (bakery / "jobs.py").write_text(script)
    done = subprocess.run(
        [sys.executable, "-m", "bakery.jobs"],
        cwd=bakery.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    last = done.stderr.splitlines()[-1]
    assert "import it as 'bakery.jobs'" in last, done.stderr
    assert "headrace worker bakery.jobs:app" in last
