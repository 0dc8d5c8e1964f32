"""What was probably meant by an app or a command that is not there."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Iterable
from pathlib import Path

import click

from headrace.core.display import meant

_APP = re.compile(r"^(\w+)\s*(?::[^=\n]+)?=\s*(?:headrace\.)?Headrace\(", re.MULTILINE)
_MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")

# Commands of other programs, and words that people try.
_FOREIGN = {
    **dict.fromkeys(("beat", "scheduler", "cron"), "workers fire schedules: headrace worker"),
    **dict.fromkeys(("run", "start", "work", "consume", "w"), "it is headrace worker"),
    **dict.fromkeys(("flower", "web", "ui", "monitor", "server"), "it is headrace dashboard"),
    **dict.fromkeys(("status", "inspect", "info"), "see headrace workers, queues and stats"),
    **dict.fromkeys(("list", "job"), "it is headrace jobs"),
    **dict.fromkeys(("queue",), "it is headrace queues"),
    **dict.fromkeys(("failed", "dlq", "replay"), "it is headrace dead"),
    **dict.fromkeys(
        ("purge", "empty", "flush", "clear"),
        "it is headrace jobs cancel --state waiting, and for dead jobs headrace dead purge",
    ),
    "schedule": "it is headrace schedules",
    "topic": "it is headrace topics",
    "reload": "it is headrace dev",
    "help": "it is headrace --help",
    "version": "it is headrace --version",
}
_FOREIGN_OPTIONS = {
    **dict.fromkeys(("-l", "--logging"), "--log-level"),
    **dict.fromkeys(("-n", "--hostname"), "--name"),
    **dict.fromkeys(("--queue", "-q"), "--queues"),
    **dict.fromkeys(("--max-tasks-per-child",), "--max-jobs-per-process"),
    **dict.fromkeys(("--pool", "-P"), "run_in= in @app.task"),
    **dict.fromkeys(("--timeout", "--shutdown-timeout"), "--drain"),
    **dict.fromkeys(("-B", "--beat", "--with-scheduler"), "nothing: workers fire schedules"),
}


def meant_app(text: str) -> str:
    """The app that a text means, such as `shop:app` for `./shop.py`; empty if that is not clear."""
    place, _, attribute = text.partition(":")
    name = re.sub(r"\.py$", "", place.removeprefix("./")).replace(os.sep, ".").strip(".")
    source = _source(name)
    if source is None:
        # The last dot for a colon: shop.app.
        name, _, attribute = name.rpartition(".")
        source = _source(name)
    if source is None:
        return ""
    apps = _APP.findall(source)
    if attribute and attribute not in apps:
        return f"{name}:{attribute}" if not apps else f"{name}:{apps[0]}"
    return f"{name}:{attribute or apps[0]}" if attribute or apps else ""


def _source(module: str) -> str | None:
    """The source of a module, which is not imported."""
    if not _MODULE.fullmatch(module):
        return None
    for file in (f"{module.replace('.', os.sep)}.py", f"{module.replace('.', os.sep)}/__init__.py"):
        if Path(file).is_file():
            return Path(file).read_text(errors="replace")
    if "." in module:
        return None
    try:
        spec = importlib.util.find_spec(module)
        return Path(spec.origin).read_text(errors="replace") if spec and spec.origin else None
    except (ImportError, ValueError, OSError):
        return None


def meant_module(name: str) -> str:
    """A question about a module that is not there; empty if none here is like it."""
    here = [each.stem for each in Path().glob("*.py")]
    return meant(name, [*here, *(each.parent.name for each in Path().glob("*/__init__.py"))])


def no_such_command(name: str, known: Iterable[str], context: click.Context) -> click.UsageError:
    """The error for a command that there is not."""
    hint = f": {_FOREIGN[name]}" if name in _FOREIGN else meant(name, known)
    return click.UsageError(f"there is no command {name!r}{hint}", context)


def no_such_option(error: click.NoSuchOption) -> str:
    """What to write instead of an option that there is not; empty if click knows better."""
    if error.ctx is not None and error.ctx.parent is None and error.option_name in ("-A", "--app"):
        return "the app comes after the command: headrace worker shop:app"
    if error.possibilities or error.option_name not in _FOREIGN_OPTIONS:
        return ""
    return f"here it is {_FOREIGN_OPTIONS[error.option_name]}"
