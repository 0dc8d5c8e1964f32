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
    "control": "see headrace queues, jobs and workers: each has its actions",
    "multi": "it is headrace worker with -p 4, or -p 1..8",
    "events": "it is headrace jobs watch",
    "call": "jobs are sent from Python: task.enqueue_sync(…)",
    "help": "it is headrace --help",
    "version": "it is headrace --version",
}
# The same below a command of ours.
_FOREIGN_VERBS = {
    "jobs": {
        "purge": _FOREIGN["purge"],
        **dict.fromkeys(("retry", "requeue", "replay"), "it is headrace dead replay"),
        **dict.fromkeys(("revoke", "abort", "kill", "stop"), "it is headrace jobs cancel"),
        **dict.fromkeys(
            ("delete", "remove"),
            "it is headrace jobs cancel, for dead jobs headrace dead purge, and for those that "
            "are done or cancelled headrace jobs forget",
        ),
    },
    "dead": {
        **dict.fromkeys(("retry", "requeue", "resume"), "it is headrace dead replay"),
        **dict.fromkeys(("delete", "remove", "forget"), "it is headrace dead purge"),
    },
}
_STORE = "set HEADRACE_URL, or write Headrace(url) in the app"
# An option of ours, maybe with a value, or a sentence.
_FOREIGN_OPTIONS = {
    **dict.fromkeys(("-l", "--logging"), "--log-level"),
    **dict.fromkeys(("-n", "--hostname"), "--name"),
    **dict.fromkeys(("--queue", "-q"), "--queues"),
    **dict.fromkeys(("--max-tasks-per-child",), "--max-jobs-per-process"),
    **dict.fromkeys(("--autoscale",), "--workers 1..8"),
    **dict.fromkeys(("--pool", "-P"), "it is run_in= in @app.task"),
    **dict.fromkeys(("--timeout", "--shutdown-timeout"), "--drain"),
    **dict.fromkeys(("-B", "--beat", "--with-scheduler"), "workers fire schedules"),
    **dict.fromkeys(("-b", "--broker", "--url"), _STORE),
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


def meant_command(name: str, known: Iterable[str], context: click.Context) -> str:
    """What was probably meant by a command that there is not, for the end of a sentence; empty if
    that is not clear."""
    noun = context.command.name or ""
    foreign = _FOREIGN if context.parent is None else _FOREIGN_VERBS.get(noun, {})
    return f": {foreign[name]}" if name in foreign else meant(name, known)


def no_such_command(name: str, known: Iterable[str], context: click.Context) -> click.UsageError:
    """The error for a command that there is not."""
    hint = meant_command(name, known, context)
    return click.UsageError(f"there is no command {name!r}{hint}", context)


def no_such_option(error: click.NoSuchOption) -> str:
    """The error for an option that there is not."""
    hint = _meant_option(error)
    # Without one, click's guess is the best there is.
    return f"{error.message.rstrip('.')}: {hint}" if hint else error.format_message()


def _meant_option(error: click.NoSuchOption) -> str:
    context, name = error.ctx, error.option_name
    if context is not None and context.parent is None and name in ("-A", "--app"):
        return "the app comes after the command: headrace worker shop:app"
    hint = _FOREIGN_OPTIONS.get(name, "")
    if not hint.startswith("-"):
        return hint
    params = () if context is None else context.command.params
    here = {option for each in params for option in each.opts}
    return f"here it is {hint}" if hint.partition(" ")[0] in here else ""
