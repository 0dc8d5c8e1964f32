"""Arguments of functions with `*args` or `**kwargs`, as one map.

What has a name is in it by that name, also what `**kwargs` takes. What `*args` takes is a list
under `*`. Under `**` is what `**kwargs` takes by the name of a parameter that has no name for
callers, as in `f(1, a=2)` of `def f(a, /, **more)`.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from headrace.core.misfit import Misfit

FURTHER, CLASHING = "*", "**"
VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_EMPTY = inspect.Parameter.empty
BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def as_map(bound: inspect.BoundArguments) -> dict[str, Any]:
    """The arguments of a call."""
    parameters = bound.signature.parameters
    named: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        kind = parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            named |= {FURTHER: list(value)} if value else {}
        elif kind is inspect.Parameter.VAR_KEYWORD:
            clash = {n for n in value if n in (FURTHER, CLASHING) or _is_nameless(parameters, n)}
            named |= {n: item for n, item in value.items() if n not in clash}
            named |= {CLASHING: {n: value[n] for n in value if n in clash}} if clash else {}
        else:
            named[name] = value
    return named


def by_parameter(
    python: inspect.Signature, given: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What each parameter takes of such a map, or of one of a function that had neither, in the
    order of the parameters; and what none takes. `Misfit` if it is no such map."""
    rest, clashing = given.get(FURTHER, []), given.get(CLASHING, {})
    if not isinstance(rest, list | tuple) or not isinstance(clashing, Mapping):
        raise Misfit("its arguments cannot be read: '*' takes a list, and '**' a map")
    left = {n: value for n, value in given.items() if n not in (FURTHER, CLASHING)}
    taken: dict[str, Any] = {}
    for name, parameter in python.parameters.items():
        if parameter.kind is parameter.VAR_POSITIONAL:
            taken |= {name: tuple(rest)} if rest else {}
            rest = []
        elif parameter.kind is parameter.VAR_KEYWORD:
            # Last of all, so that the others have been taken.
            taken |= {name: {**left, **clashing}} if left or clashing else {}
            left, clashing = {}, {}
        elif name in left:
            taken[name] = left.pop(name)
    return taken, {**({FURTHER: rest} if rest else {}), **left, **clashing}


def bound_map(
    python: inspect.Signature, given: Mapping[str, Any], *, ignores_unknown: bool = False
) -> inspect.BoundArguments:
    """The arguments in such a map as the function is called with them; `Misfit` if it cannot be."""
    taken, unknown = by_parameter(python, given)
    if unknown and not ignores_unknown:
        raise Misfit(f"there is no argument {next(iter(unknown))!r}")
    for parameter in python.parameters.values():
        required = parameter.kind not in VARIADIC and parameter.default is _EMPTY
        if required and parameter.name not in taken:
            raise Misfit(f"argument {parameter.name!r} is missing")
    return bound_without_gaps(python, taken)


def bound_without_gaps(
    python: inspect.Signature, taken: Mapping[str, Any]
) -> inspect.BoundArguments:
    """These arguments, with defaults where one behind them can only be given by its place, and
    would move up."""
    parameters = list(python.parameters.values())
    only = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL)
    last = max(
        (at for at, p in enumerate(parameters) if p.name in taken and p.kind in only), default=-1
    )
    bound = python.bind_partial()
    for at, parameter in enumerate(parameters):
        if parameter.name in taken:
            bound.arguments[parameter.name] = taken[parameter.name]
        elif at < last and parameter.default is not _EMPTY:
            bound.arguments[parameter.name] = parameter.default
    return bound


def bound_in_order(python: inspect.Signature, values: Sequence[Any]) -> inspect.BoundArguments:
    """The arguments of an array in the order of the parameters; `TypeError` if they do not fit."""
    parameters = list(python.parameters.values())
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return python.bind(*values)
    split = sum(p.kind in BY_PLACE for p in parameters)
    names = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
    return python.bind(*values[:split], **dict(zip(names, values[split:], strict=False)))


def _is_nameless(parameters: Mapping[str, inspect.Parameter], name: str) -> bool:
    found = parameters.get(name)
    return found is not None and found.kind is inspect.Parameter.POSITIONAL_ONLY
