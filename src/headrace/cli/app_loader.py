"""From the words of a command to an app; and commands for people to paste, in which names are
quoted."""

from __future__ import annotations

import importlib
import os
import re
import shlex
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import click

from headrace import Headrace
from headrace.cli.output import complain, harmless_lines
from headrace.cli.suggestions import meant_app, meant_module
from headrace.client.include import modules
from headrace.client.include.modules import ModuleFailed, is_missing, last_line
from headrace.core.address import sqlite_path
from headrace.core.wrong_use import kind_of
from headrace.errors import ConfigError, HeadraceError

Command = TypeVar("Command", bound=Callable[..., Any])

_IMPORT_STRING = re.compile(r"[^\W\d][\w.]*:[^\W\d][\w.]*")
OF_ONE_PROCESS = "a memory:// store is of one process"
# Enough to see where the module's own code went wrong.
_FRAMES_SHOWN = 3


class NotImported(ConfigError):
    """The module of the app fails; where, was shown."""


def app_options(command: Command) -> Command:
    """The options that name an app or a store; `chosen_app` takes them."""
    for option in (
        click.option("--namespace", metavar="NS", help="Namespace in the store of --url."),
        click.option("--url", help="Store to use, instead of an app's."),
        click.option("-A", "--app", "app_option", metavar="APP", help="App, as module:attribute."),
    ):
        command = option(command)
    return command


def chosen_app(app: str | None, url: str | None, namespace: str | None) -> Headrace:
    """The named app, or a bare one on the named store."""
    if app is not None:
        if url or namespace:
            raise ConfigError("give an app, or --url and --namespace, not both")
        return _with_warning(load_app(app))
    bare = _with_warning(Headrace(url, namespace=namespace))
    # Otherwise a wrong directory, or a misspelt file, would create an empty store.
    path = sqlite_path(bare.url) if bare.url.startswith("sqlite:") else ""
    if path and not Path(path).exists():
        raise ConfigError(
            "say which app or store: module:attribute such as shop:app, --url or HEADRACE_URL "
            f"(there is no {path} here)"
        )
    return bare


def is_of_one_process(app: Headrace) -> bool:
    return app.url.startswith("memory:")


def _with_warning(app: Headrace) -> Headrace:
    if is_of_one_process(app):
        complain(f"warning: {OF_ONE_PROCESS}, and this one is new: there is nothing in it")
    return app


def one_app(positional: str | None, option: str | None) -> str | None:
    """The app, given as an argument or with --app."""
    if positional is not None and option is not None:
        raise ConfigError(f"the app is given twice: {positional!r} and --app {option!r}")
    return option if positional is None else positional


def looks_like_app(text: str) -> bool:
    return _IMPORT_STRING.fullmatch(text) is not None


def load_app(import_string: str) -> Headrace:
    """The app at `module:attribute`, with the modules that it includes; modules in the current
    directory are found too."""
    if not looks_like_app(import_string):
        meant = meant_app(import_string)
        raise ConfigError(
            f"{import_string!r} does not name an app: write "
            + (meant or "module:attribute, for example shop:app")
        )
    name, _, path = import_string.partition(":")
    module = _imported(name)
    found: Any = module
    for attribute in path.split("."):
        if not hasattr(found, attribute):
            raise ConfigError(f"module {name!r} has no {path!r}{apps_of(module)}")
        found = getattr(found, attribute)
    if not isinstance(found, Headrace):
        raise ConfigError(
            f"{import_string} is not a Headrace app but {kind_of(found)}{apps_of(module)}"
        )
    return _with_all_tasks(found)


def _imported(name: str) -> ModuleType:
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except HeadraceError:
        raise
    except (Exception, SystemExit) as error:
        if is_missing(name, error):
            missing = str(getattr(error, "name", name))
            meant = meant_app(f"{name}:")
            hint = f": write {meant}" if meant else meant_module(missing)
            raise ConfigError(
                f"there is no module {missing!r} in this directory or on the Python path{hint}"
            ) from None
        _show_place(error)
        raise NotImported(f"module {name!r} cannot be imported: {last_line(error)}") from None


def _with_all_tasks(app: Headrace) -> Headrace:
    try:
        app.load()
    except ModuleFailed as error:
        if error.__cause__ is not None:
            _show_place(error.__cause__)
        raise NotImported(str(error)) from None
    return app


def _show_place(error: BaseException) -> None:
    """Show where the module's own code went wrong."""
    trace = error.__traceback__
    while trace is not None and _is_machinery(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    shown = traceback.format_exception(type(error), error, trace, limit=-_FRAMES_SHOWN)
    for line in harmless_lines("".join(shown).rstrip()):
        click.echo(line, err=True)


def _is_machinery(filename: str) -> bool:
    return filename in (__file__, modules.__file__) or filename.startswith(
        ("<frozen importlib", importlib.__file__)
    )


def apps_of(module: ModuleType) -> str:
    """Advice for someone who named an app that the module does not have."""
    apps = [name for name, value in vars(module).items() if isinstance(value, Headrace)]
    if not apps:
        return ", and no Headrace app of another name"
    return (
        f"; its apps: {', '.join(apps)}"
        if len(apps) > 1
        else f": write {module.__name__}:{apps[0]}"
    )


def command(*verb: str, words: tuple[str, ...] = (), **options: str) -> str:
    """A command of ours that, pasted into a shell, means these words and options and nothing else,
    whatever they hold."""
    parts = ["headrace", *verb]
    if words and looks_like_app(words[0]):
        # It would be taken for the app, and imported.
        parts += ["--app", "APP"]
    named = list(map(shlex.quote, words))
    if any(word.startswith("-") for word in words):
        # Behind two dashes, nothing is an option.
        return " ".join([*parts, *_given(options), "--", *named])
    return " ".join([*parts, *named, *_given(options)])


def _given(options: Mapping[str, str]) -> list[str]:
    return [
        f"--{name}{'=' if value.startswith('-') else ' '}{shlex.quote(value)}"
        for name, value in options.items()
    ]


def reading(queue: str, app: str | None = None) -> str:
    """Advice on how to have a worker read a queue, which is one of the `app` if that is given."""
    if app is not None:
        return f"run headrace worker {shlex.quote(app)}"
    if "," in queue:
        return "run a worker whose app has it"
    # Behind its own "=", a number would be taken for its weight.
    weighted = f"{queue}=1" if "=" in queue else queue
    alone = f"-Q {shlex.quote(weighted)}"
    return f"run the app that has it: headrace worker APP, for this queue alone with {alone}"


if __name__ == "__main__":
    # `headrace dev` asks whether changed code can be loaded.
    try:
        load_app(sys.argv[1])
    except NotImported:
        sys.exit(2)
    except HeadraceError as error:
        complain(str(error))
        sys.exit(2)
