"""The program as a whole: its help, its version, and what it imports."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from importlib.metadata import version
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from headrace.cli import COMMANDS, main
from headrace.cli.program import CommandAt, Program
from tests.cli.conftest import Start
from tests.cli.programs import LONG, eventually
from tests.cli.test_worker import send

PRINTING = """
import os


def print_and_touch(name: str) -> None:
    print("on both ways", flush=True)
    print("on both ways", file=sys.stderr, flush=True)
    for number in (1, 2):
        os.write(number, b"whatever Python knows")
    Path(name).touch()


@app.task(name="near")
def near(name: str) -> None:
    print_and_touch(name)


@app.task(name="far", run_in="process")
def far(name: str) -> None:
    print_and_touch(name)
"""


def test_version() -> None:
    result = CliRunner().invoke(main, ["--version"])
    assert (result.exit_code, result.output) == (0, f"headrace {version('headrace')}\n")


@pytest.mark.parametrize("arguments", [[], ["-h"], ["--help"]])
def test_help_lists_the_commands(arguments: list[str]) -> None:
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0
    assert all(f"  {name} " in result.output for name in ("dead", "queues", "worker"))


@pytest.mark.parametrize("arguments", [(), ("jobs",), ("outbox",)], ids=" ".join)
def test_help_wraps_what_it_says_of_a_command(arguments: tuple[str, ...]) -> None:
    shown = CliRunner().invoke(main, [*arguments, "--help"], terminal_width=80).output
    commands = shown.partition("Commands:\n")[2].splitlines()
    assert commands
    assert all(len(line) <= 80 and not line.endswith("...") for line in commands)


VERBS = {
    "dead": ("list", "show", "replay", "purge"),
    "jobs": ("list", "show", "why", "log", "cancel", "watch"),
    "queues": ("list", "pause", "resume"),
    "schedules": ("list", "pause", "resume", "remove", "run"),
    "workers": ("list",),
}


@pytest.mark.parametrize(
    "words",
    [["worker"], *([noun] for noun in VERBS), *([n, verb] for n in VERBS for verb in VERBS[n])],
    ids=" ".join,
)
def test_every_command_has_help(words: list[str]) -> None:
    command: click.Command = main
    for word in words:
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(command, **main.context_settings), word)
        assert found is not None
        command = found
        # Click keeps the help option of a first context, which another test may have made.
        vars(command)["_help_option"] = None
    result = CliRunner().invoke(main, [*words, "-h"])
    assert result.exit_code == 0, result.output
    assert result.output.startswith(f"Usage: headrace {' '.join(words)} ")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["fly"], "headrace: there is no command 'fly' (see 'headrace --help')"),
        (["wroker"], "headrace: there is no command 'wroker': did you mean 'worker'? (see"),
        (["beat"], "headrace: there is no command 'beat': workers fire schedules: headrace work"),
        (
            ["purge", "shop:app"],
            "headrace: there is no command 'purge': it is headrace jobs cancel --state waiting, "
            "and for dead jobs headrace dead purge (see",
        ),
        (
            ["-A", "shop", "worker"],
            "headrace: No such option '-A': the app comes after the command",
        ),
        (["worker", "shop:app", "-l", "info"], "headrace: No such option '-l': here it is --log-"),
        (["queues", "pauze", "shop:app"], "headrace: there is no command 'pauze': did you mean"),
        (["control", "purge"], "headrace: there is no command 'control': see headrace queues, "),
        (["multi", "start"], "headrace: there is no command 'multi': it is headrace worker with"),
        (["events"], "headrace: there is no command 'events': it is headrace jobs watch (see"),
        (["call", "send"], "headrace: there is no command 'call': jobs are sent from Python: "),
        (["jobs", "purge"], "headrace: there is no command 'purge': it is headrace jobs cancel"),
        (["jobs", "retry", "1"], "headrace: there is no command 'retry': it is headrace dead re"),
        (["jobs", "requeue"], "headrace: there is no command 'requeue': it is headrace dead rep"),
        (["jobs", "revoke", "1"], "headrace: there is no command 'revoke': it is headrace jobs c"),
        (["jobs", "delete"], "headrace: there is no command 'delete': it is headrace jobs cancel"),
        (["dead", "retry"], "headrace: there is no command 'retry': it is headrace dead replay ("),
        (["dead", "requeue"], "headrace: there is no command 'requeue': it is headrace dead rep"),
        (["dead", "delete"], "headrace: there is no command 'delete': it is headrace dead purge"),
        (["queues", "a", "b"], "headrace: Got unexpected extra argument (b) (see"),
    ],
)
def test_wrong_use_is_one_line_and_code_2(arguments: list[str], line: str) -> None:
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith(line)
    assert result.stderr.count("\n") == 1


_NO_SUCH = "headrace: No such option"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ("worker --url x", f"{_NO_SUCH} '--url': set HEADRACE_URL, or write Headrace(url) in the"),
        ("worker --broker x", f"{_NO_SUCH} '--broker': set HEADRACE_URL, or write Headrace(url)"),
        ("worker -b x", f"{_NO_SUCH} '-b': set HEADRACE_URL, or write Headrace(url) in the app (s"),
        ("dev --url x", f"{_NO_SUCH} '--url': set HEADRACE_URL, or write Headrace(url) in the app"),
        ("worker --beat", f"{_NO_SUCH} '--beat': workers fire schedules (see"),
        ("worker -B", f"{_NO_SUCH} '-B': workers fire schedules (see"),
        ("worker --queue x", f"{_NO_SUCH} '--queue': here it is --queues (see"),
        ("worker --autoscale 8,1", f"{_NO_SUCH} '--autoscale': here it is --workers 1..8 (see"),
        ("worker --concurency 8", f"{_NO_SUCH} '--concurency'. Did you mean '--concurrency'"),
        ("jobs list -n x", f"{_NO_SUCH} '-n' (see 'headrace jobs list"),
    ],
)
def test_habits_of_other_programs_are_answered(arguments: str, line: str) -> None:
    result = CliRunner().invoke(main, arguments.split())
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(line)


def test_queues_after_the_app_are_to_be_an_option(start: Start) -> None:
    worker = start("worker", "shop:app", "mail", "default")
    assert worker.ended() == 2
    assert worker.output.startswith("headrace: name queues with an option: -Q mail,default (see")


@pytest.mark.parametrize("noun", ["dead", "jobs", "queues", "schedules", "topics", "workers"])
@pytest.mark.parametrize("words", [(), ("shop:app",), ("--json",)], ids=" ".join)
def test_a_noun_without_a_command_lists(
    place: Path, monkeypatch: pytest.MonkeyPatch, noun: str, words: tuple[str, ...]
) -> None:
    monkeypatch.setenv("HEADRACE_URL", "memory://")
    (place / "shop.py").write_text("from headrace import Headrace\napp = Headrace()\n")
    plain = CliRunner().invoke(main, [noun, *words])
    listed = CliRunner().invoke(main, [noun, "list", *words])
    assert (plain.exit_code, plain.stdout) == (0, listed.stdout), plain.stderr


def test_a_command_whose_file_is_missing_is_no_problem_for_others() -> None:
    gone = CommandAt("headrace.cli.no_such_file:gone", "Be gone.")
    program = Program("headrace", commands_at={"queues": COMMANDS["queues"], "gone": gone})
    assert CliRunner().invoke(program, ["--help"]).exit_code == 0
    assert CliRunner().invoke(program, ["queues", "--help"]).exit_code == 0
    assert CliRunner().invoke(program, ["gone"]).exit_code == 2


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_says_of_a_command_what_the_command_says_of_itself(name: str) -> None:
    command = main.get_command(click.Context(main, **main.context_settings), name)
    assert command is not None
    assert not command.hidden
    assert COMMANDS[name].does == command.get_short_help_str(limit=1_000)


def loaded_by(*arguments: str) -> set[str]:
    """The modules of ours that a command has loaded when it ends."""
    code = (
        "import sys; from headrace.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        "print(*sys.modules, file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], check=True, capture_output=True, text=True
    )
    ours = (name for name in done.stderr.split() if name.startswith("headrace."))
    return {name.removeprefix("headrace.") for name in ours}


def test_a_command_imports_only_what_it_needs() -> None:
    others = {"cli.processes", "cli.jobs", "demo", "benchmark", "store.redis"}
    assert not loaded_by("queues", "--url", "memory://") & others


def commands_in(modules: set[str]) -> set[str]:
    """The names of the commands that are among the modules."""
    places = {name: at.place.partition(":")[0] for name, at in COMMANDS.items()}
    return {name for name in COMMANDS if places[name].removeprefix("headrace.") in modules}


@pytest.mark.parametrize("arguments", [("--help",), ("-h",), ()], ids=" ".join)
def test_the_help_of_the_program_imports_no_command(arguments: tuple[str, ...]) -> None:
    modules = loaded_by(*arguments)
    assert commands_in(modules) == set()
    heavy = {"worker.worker", "admin", "store.sqlite", "store.redis", "demo", "benchmark", "top"}
    assert not modules & heavy


@pytest.mark.parametrize("noun", ["jobs", "queues", "topics"])
def test_the_help_of_a_noun_imports_no_other_command(noun: str) -> None:
    modules = loaded_by(noun, "--help")
    assert commands_in(modules) == {noun}
    assert not modules & {"worker.worker", "store.redis", "demo", "benchmark", "top"}


def test_python_m_headrace_is_the_same_program() -> None:
    command = [sys.executable, "-m", "headrace", "--version"]
    assert subprocess.check_output(command, text=True) == f"headrace {version('headrace')}\n"


@pytest.mark.parametrize("closed", ["2", pytest.param("1 2", marks=pytest.mark.nightly), "0 1 2"])
@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_worker_works_without_the_files_that_others_are_started_with(
    shop: Path, closed: str, processes: str
) -> None:
    code = (shop / "shop.py").read_text()
    (shop / "shop.py").write_text(code + PRINTING)
    redirections = " ".join(f"{number}>&-" for number in closed.split())
    command = f"exec {sys.executable} -m headrace worker shop:app -p {processes} {redirections}"
    worker = subprocess.Popen(["sh", "-c", command], cwd=shop, start_new_session=True)
    try:
        for task in ("near", "far"):
            send(task, f"{task}-done")
            eventually(f"{task} is done", (shop / f"{task}-done").exists, within=30)
        with closing(sqlite3.connect(shop / "headrace.db")) as file:
            assert file.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        worker.terminate()
        assert worker.wait(LONG) == 0
    finally:
        worker.kill()
        worker.wait()
