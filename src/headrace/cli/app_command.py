"""What commands have in common: their app, its admin, words, options and questions."""

from __future__ import annotations

import asyncio
import getpass
import os
import socket
import sys
from collections.abc import Awaitable, Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import click

from headrace.cli.app_loader import app_options, chosen_app, looks_like_app, one_app
from headrace.cli.command_group import CommandGroup
from headrace.cli.logs import without_risks
from headrace.cli.output import harmless
from headrace.cli.suggestions import meant_command, no_such_command
from headrace.errors import ConfigError

if TYPE_CHECKING:
    from headrace import Headrace
    from headrace.admin import Admin

T = TypeVar("T")
Command = TypeVar("Command", bound=Callable[..., Any])

LIST = "list"
_SHOWS_ALL = "headrace.shows_all"


class Noun(CommandGroup):
    """Commands about one noun; `list` is the default."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, self._with_command(ctx, args))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        return super().resolve_command(ctx, self._with_command(ctx, args))

    def _with_command(self, ctx: click.Context, args: list[str]) -> list[str]:
        named = args and (args[0] in self.commands or args[0] in ctx.help_option_names)
        if not named and args and args[0].isalpha() and meant_command(args[0], self.commands, ctx):
            # Not an app: that has a colon.
            raise no_such_command(args[0], self.commands, ctx)
        return args if named else [LIST, *args]


def asked(app: Headrace, question: Callable[[Headrace], Awaitable[T]]) -> T:
    """The answer of the app, which is open meanwhile."""

    async def answer() -> T:
        async with app:
            return await question(app)

    with without_risks():
        return asyncio.run(answer())


def acted(app: Headrace, action: Callable[[Admin], Awaitable[T]]) -> T:
    """The result of an action, which is recorded as done by the user of this terminal."""
    return asked(app, lambda app: action(admin_of(app).by(current_user())))


def named_app() -> str | None:
    """The app that the user of this command has named; None if it was a store."""
    params = click.get_current_context().params
    return one_app(params.get("app"), params.get("app_option"))


def secrets_option(command: Command) -> Command:
    """For commands that show or search the content of jobs; `admin_of` reads it."""

    def keep(context: click.Context, _: click.Parameter, given: bool) -> None:
        context.meta[_SHOWS_ALL] = given

    return click.option(
        "--show-secrets",
        is_flag=True,
        expose_value=False,
        callback=keep,
        help="Show and search also what the app's redact hook hides.",
    )(command)


def admin_of(app: Headrace) -> Admin:
    """The redacted admin of the app, or the plain one with --show-secrets."""
    context = click.get_current_context(silent=True)
    if context is not None and context.meta.get(_SHOWS_ALL):
        return app.admin
    return app.admin.redacted()


def warn_of_redacted_search(app: Headrace, text: str | None) -> None:
    """Warn that a search leaves out arguments, if the app hides some."""
    if text and admin_of(app).is_redacted:
        click.echo(
            "(arguments are not searched: this app hides some of them; see --show-secrets)",
            err=True,
        )


def current_user() -> str:
    """User and machine of this process: `ann@server`."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError, ImportError):
        # In a container, a user may have no name.
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"


def of_app(command: Callable[..., None]) -> Callable[..., None]:
    """A command about an app or a store, which it gets as `app`."""

    @click.argument("app", required=False)
    @app_options
    @wraps(command)
    def called(
        app: str | None,
        app_option: str | None,
        url: str | None,
        namespace: str | None,
        **options: Any,
    ) -> None:
        command(app=chosen_app(one_app(app, app_option), url, namespace), **options)

    return called


def of_words(*whats: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A command about one thing in it: it is called with `app`, and with the words that name the
    thing, under these names."""

    def takes_words(command: Callable[..., None]) -> Callable[..., None]:
        metavar = " ".join(("[APP]", *map(str.upper, whats)))

        @click.argument("words", nargs=-1, required=True, metavar=metavar)
        @app_options
        @wraps(command)
        def called(
            words: tuple[str, ...],
            app_option: str | None,
            url: str | None,
            namespace: str | None,
            **options: Any,
        ) -> None:
            app, named = app_option, list(words)
            if len(words) > len(whats) or not (url or namespace):
                app, named = split(words, app_option, store_named=bool(url or namespace))
            given = _named(whats, named, app)
            command(app=chosen_app(app, url, namespace), **given, **options)

        return called

    return takes_words


def _named(whats: Sequence[str], words: list[str], app: str | None) -> dict[str, str]:
    if len(whats) == 1:
        return {whats[0]: only(whats[0], words, app)}
    if len(words) != len(whats):
        said = " ".join(map(repr, words)) or "nothing"
        raise ConfigError(f"give {' and '.join(whats)} as separate words{within(app)}, not {said}")
    return dict(zip(whats, words, strict=True))


def json_option(command: Command) -> Command:
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")(command)


def yes_option(command: Command) -> Command:
    return click.option("--yes", is_flag=True, help="Do not ask.")(command)


def split(
    words: tuple[str, ...], app_option: str | None, *, store_named: bool, app_alone: bool = False
) -> tuple[str | None, list[str]]:
    """The app, if the first word looks like one, and the other words. With a store named by an
    option, a single word is no app, unless the command needs no other (`app_alone`)."""
    if app_option is not None or not words or not looks_like_app(words[0]):
        return app_option, list(words)
    if store_named and len(words) == 1 and not app_alone:
        return None, list(words)
    return words[0], list(words[1:])


def only(what: str, words: list[str], app: str | None) -> str:
    """The one word that a command takes."""
    if not words:
        raise ConfigError(
            f"say which {what} in {app}; if that is the {what}, name its store with --app or --url"
        )
    if len(words) != 1:
        raise ConfigError(f"say one {what}, not {len(words)}: {' '.join(words)!r}")
    return words[0]


def within(app: str | None) -> str:
    """Such as " in shop:app", for a sentence."""
    return "" if app is None else f" in {app}"


def confirm(verb: str, what: str) -> None:
    """Ask before what cannot be undone; `ConfigError` if there is no terminal to ask in."""
    if not sys.stdin.isatty():
        raise ConfigError(f"{verb} cannot ask without a terminal: say --yes if you mean it")
    click.confirm(f"{verb.capitalize()} {harmless(what)}?", abort=True, err=True)
