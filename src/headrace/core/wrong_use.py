"""Sentences about what cannot work: options that are not there, names that other libraries have,
values of a wrong type."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn, TypeVar

from headrace.core.display import meant
from headrace.errors import ConfigError

Hint = str | Callable[[Any], str]
"""What to write instead; as a function, of the value that was given."""

F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=type)

NEEDS_ASYNCIO = (
    "Headrace needs asyncio, and no event loop of it runs here: trio and others have their own. "
    "Run this with asyncio.run(…), or anyio.run(…, backend='asyncio'); in tests with anyio, a "
    "fixture anyio_backend returns 'asyncio'. Code without an event loop uses the _sync methods"
)

# By its sound: an HTTPError, a UUID, a User.
_AN = re.compile(r"[AEIOaeio]|[FHLMNRSX][A-Z]|[Uu](?![UuSs]|ni|r[iIlL]|R[iIlL]|t|T)")


def with_article(name: str) -> str:
    """A name of a type in a sentence: `an int`, `a UUID`."""
    return f"{'an' if _AN.match(name) else 'a'} {name}"


def kind_of(value: object) -> str:
    """What a value is, without its content: `an int`, `None`, `the class Order`."""
    if value is None:
        return "None"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return with_article(type(value).__name__)


def shown(value: object) -> str:
    """A value for a sentence: a function by its name, other things as Python writes them."""
    if inspect.isroutine(value):
        return f"the function {getattr(value, '__name__', 'it')}"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return repr(value)


def unknown_option(
    what: str,
    name: str,
    known: Iterable[str],
    hints: Mapping[str, Hint] | None = None,
    value: object = None,
) -> ConfigError:
    """The error for an option that is not there: what to write instead, if that can be guessed,
    else all that there are."""
    names = sorted(known)
    if hints and name in hints:
        hint = hints[name]
        return ConfigError(
            f"{what} has no {name!r}: {hint if isinstance(hint, str) else hint(value)}"
        )
    if question := meant(name, names):
        return ConfigError(f"{what} has no {name!r}{question}")
    return ConfigError(f"{what} has no {name!r}; it takes {', '.join(names)}")


def checks_options(what: str, hints: Mapping[str, Hint] | None = None) -> Callable[[F], F]:
    """For a function with options: a call that does not fit it is refused with a sentence about
    `what`, not with Python's about the function."""

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        places = [each for each in signature.parameters.values() if each.name != "self"]
        open_ended = any(each.kind is each.VAR_KEYWORD for each in places)
        names = [each.name for each in places if each.kind is not each.VAR_KEYWORD]

        @functools.wraps(function)
        def called(*args: Any, **kwargs: Any) -> Any:
            if not open_ended and (odd := sorted(kwargs.keys() - set(names))):
                raise unknown_option(what, odd[0], names, hints, kwargs[odd[0]])
            try:
                signature.bind(*args, **kwargs)
            except TypeError as error:
                raise ConfigError(f"{what}: {error}; it takes {', '.join(names)}") from None
            return function(*args, **kwargs)

        return called  # type: ignore[return-value]

    return decorate


class _ForeignName:
    """An attribute that is not there, and whose absence is explained."""

    def __init__(self, hint: str, word: str) -> None:
        self._hint, self._word = hint, word

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type) -> NoReturn:
        hint = self._hint
        if (name := getattr(instance, "__name__", None)) and self._word:
            hint = hint.replace(f"{self._word}.", f"{name}.")
        raise AttributeError(f"{owner.__name__} has no {self._name!r}: {hint}")


def foreign_names(hints: Mapping[str, str], word: str = "") -> Callable[[C], C]:
    """For a class: names that people know from other libraries, each with what it is here. They
    stay unknown to `hasattr`, `dir` and type checkers, and cost nothing. `word` stands for the
    object in them."""

    def own_names(self: object) -> list[str]:
        return [name for name in object.__dir__(self) if name not in hints]

    def decorate(owner: C) -> C:
        for name, hint in hints.items():
            if hasattr(owner, name):
                continue
            foreign = _ForeignName(hint, word)
            foreign.__set_name__(owner, name)
            setattr(owner, name, foreign)
        owner.__dir__ = own_names  # type: ignore[method-assign, assignment]
        return owner

    return decorate


def needs_async_with(what: str, otherwise: str) -> Callable[[C], C]:
    """For a class with `async with`: plain `with` is refused with a sentence."""

    def enter(self: object) -> NoReturn:
        raise ConfigError(f"write `async with {what}:`, not `with {what}:`; {otherwise}")

    def decorate(owner: C) -> C:
        owner.__enter__ = enter  # type: ignore[attr-defined]
        owner.__exit__ = lambda self, *_: None  # type: ignore[attr-defined]
        return owner

    return decorate


def not_awaitable(hint: str) -> Callable[[C], C]:
    """For a class whose objects people may try to await: that is refused with a sentence."""

    def await_(self: object) -> NoReturn:
        raise ConfigError(hint)

    def decorate(owner: C) -> C:
        owner.__await__ = await_  # type: ignore[attr-defined]
        return owner

    return decorate
