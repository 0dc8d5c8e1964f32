"""The parameters of a task's function: arguments in, bytes out, and back.

Arguments travel as one array in the order of the parameters, without trailing defaults. Functions
with `*args` or `**kwargs` send `[args, kwargs]` instead. An open call lacks the first argument: in
a flow, the result of another job is put there, as the bytes it came in. Such calls travel as
MessagePack, whatever the codec of the task is.
"""

from __future__ import annotations

import copy
import inspect
import re
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from headrace.core import codec
from headrace.core.codec import with_first
from headrace.core.payload.codecs import PLAIN, Form, form_of
from headrace.core.task.batch_items import of_one_item
from headrace.errors import ArgumentError, ConfigError

_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_EMPTY = inspect.Parameter.empty


class Misfit(Exception):
    """Arguments arrived that do not fit the function (any more)."""


class UnknownContent(Misfit):
    """Arguments arrived by a codec that the task does not have here."""


class Signature:
    """How one function's arguments travel. A parameter annotated with `injected` does not: its
    position is `injected_at`, its name `injected_as`. A `batched` function takes a list and returns
    one (or nothing): what travels is one item of each. `form` is the codec; its content type is in
    `content`, as envelopes name it."""

    def __init__(
        self,
        function: Callable[..., Any],
        task: str,
        injected: type,
        *,
        batched: bool = False,
        form: Form = PLAIN,
    ) -> None:
        self.task = task
        hints = _type_hints(function, task)
        parameters = list(inspect.signature(function).parameters.values())
        self.injected_as, self.injected_at = _find_injected(parameters, hints, injected)
        self._parameters = [p for p in parameters if p.name != self.injected_as]
        if batched:
            hints = of_one_item(task, self._parameters, hints)
        self._python = inspect.Signature(self._parameters)
        self._variadic = any(p.kind in _VARIADIC for p in self._parameters)
        self._hints = hints
        keyword_only = [p for p in self._parameters if p.kind is p.KEYWORD_ONLY]
        self._positional = len(self._parameters) - len(keyword_only)
        self._keyword_names = [p.name for p in keyword_only]
        self._most, self._least = self._plain_arity(keyword_only)
        # Arguments that are all there, and by position, need no struct in between.
        self._exact = not self._variadic and self._most == self._least == len(self._parameters)
        self._use(form)
        self.returns = hints.get("return", Any)

    def _use(self, form: Form) -> None:
        self.form, self.content = form, form.on_the_wire
        self._encode = form.encode
        self._decode = self._build_decoder()
        self._others: dict[str, Signature] = {}

    def of_content(self, content: str) -> Signature:
        """The same for arguments of this content type; `Misfit` if they cannot be read."""
        if content == self.content:
            return self
        form = form_of(content)
        if form is None:
            raise UnknownContent(
                f"the arguments come as {content!r}, which task {self.task!r} cannot read: give "
                "it the codec by which they were sent"
            )
        if form.name not in self._others:
            other = copy.copy(self)
            other._use(form)
            self._others[form.name] = other
        return self._others[form.name]

    @property
    def first(self) -> Any:
        """The type of the first argument; Any if that is not known."""
        known = self._positional > 0 and not self._variadic
        return self._hints.get(self._parameters[0].name, Any) if known else Any

    @property
    def first_name(self) -> str:
        """The name of the first argument; empty if there is none."""
        return self._parameters[0].name if self._parameters else ""

    @property
    def takes(self) -> int:
        """How many arguments it takes by position, those with defaults included."""
        return self._positional

    def encode(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bytes:
        """The arguments as bytes, or an `ArgumentError` that names the one that is wrong."""
        if kwargs or not self._least <= len(args) <= self._most:
            args = self._in_order(args, kwargs)
        try:
            return self._encode(args)
        except Exception as error:
            raise self._blame(args, error) from error

    def decode(self, payload: bytes) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments, converted by the annotations, or `Misfit`."""
        if not self.form.is_typed:
            return self._decode_own(payload)
        try:
            values = self._decode(payload)
            if self._exact:
                return values, {}
            if self._variadic:
                return self._converted_variadic(*values)
        except codec.DECODE_ERRORS as error:
            raise Misfit(self._misfit_text(error)) from None
        fields = msgspec.structs.astuple(values)
        if not self._keyword_names:
            return fields, {}
        split = self._positional
        named = dict(zip(self._keyword_names, fields[split:], strict=True))
        for name, value in named.items():
            if value is _EMPTY:
                raise Misfit(f"argument {name!r} is missing")
        return fields[:split], named

    def decode_with_first(
        self, payload: bytes, first: bytes
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """`decode` with `first`, an encoded value, before the arguments in `payload`."""
        spliced = with_first(payload, first, at=1 if self._variadic else 0)
        if spliced is None:
            raise Misfit("the arguments are not an array")
        return self.decode(spliced)

    def with_any_first(self) -> Signature:
        """The same with a first argument of any type."""
        other = copy.copy(self)
        other._hints = {**self._hints, self._parameters[0].name: Any}
        other._decode = other._build_decoder()
        return other

    def encode_call(
        self, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[bytes | None, bytes | None]:
        """Two encodings: of all arguments, and of the arguments after a missing first one; None for
        one that does not fit. `ArgumentError` if neither fits."""
        if not kwargs and self._least <= len(args) <= self._most:
            payload = self.encode(args, kwargs)
            if len(args) >= self._positional:
                return payload, None
            return payload, payload if self.form is PLAIN else self._as_plain(args)
        after_first = self._encode_after_first(args, kwargs)
        try:
            return self.encode(args, kwargs), after_first
        except ArgumentError:
            if after_first is None:
                raise
            return None, after_first

    def fingerprint(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], lacks_first_argument: bool
    ) -> bytes:
        """Bytes that are the same for calls that mean the same: by position or by name, defaults
        given or left out."""
        bound = self._python.bind(*([None, *args] if lacks_first_argument else args), **kwargs)
        given = [bound.args, bound.kwargs]
        bound.apply_defaults()
        if not self.form.is_typed:
            return self._encode([lacks_first_argument, bound.args, bound.kwargs])
        try:
            return codec.encode_alike([lacks_first_argument, bound.args, bound.kwargs])
        except codec.ENCODE_ERRORS:
            # A default that cannot travel never does.
            return codec.encode_alike([lacks_first_argument, *given])

    def largest(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str | None:
        """The name of the argument that takes the most bytes."""
        if not self.form.is_typed:
            return None
        bound = self._python.bind(*args, **kwargs).arguments
        return max(bound, key=lambda name: len(self._encode(bound[name])), default=None)

    def _plain_arity(self, keyword_only: list[inspect.Parameter]) -> tuple[int, int]:
        """How many positional arguments need no binding: (most, least); most < least if any do."""
        if self._variadic or any(p.default is _EMPTY for p in keyword_only):
            return -1, 0
        required = sum(p.default is _EMPTY for p in self._parameters)
        return self._positional, required

    def _in_order(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Sequence[Any]:
        if self.injected_as in kwargs:
            problem = f"argument {self.injected_as!r} is filled in by the worker: do not give it"
            raise ArgumentError(self.task, problem, self.injected_as)
        try:
            bound = self._python.bind(*args, **kwargs)
        except TypeError as error:
            expected = f"{self.task}{self._python}"
            raise ArgumentError(self.task, f"{error}; it takes {expected}") from None
        if self._variadic:
            return [bound.args, bound.kwargs]
        names = [p.name for p in self._parameters]
        sent = max((names.index(name) + 1 for name in bound.arguments), default=0)
        bound.apply_defaults()
        return [bound.arguments[name] for name in names[:sent]]

    def _encode_after_first(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bytes | None:
        if not self._variadic and not self._has_room(args, kwargs):
            return None
        try:
            values = self._in_order([None, *args], kwargs)
        except ArgumentError:
            return None
        rest = [values[0][1:], values[1]] if self._variadic else values[1:]
        if self.form is not PLAIN:
            return self._as_plain(rest)
        try:
            return codec.encode(rest)
        except codec.ENCODE_ERRORS as error:
            raise self._blame(values, error) from error

    def _as_plain(self, values: Sequence[Any]) -> bytes | None:
        """The arguments for a flow; None if they cannot be part of one."""
        try:
            return codec.encode(values)
        except codec.ENCODE_ERRORS:
            return None

    def _has_room(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
        """Cheap check whether one more first argument could fit."""
        after = len(args)
        if after >= self._positional:
            return False
        return not {self._parameters[0].name, self._parameters[after].name} & kwargs.keys()

    def _blame(self, values: Sequence[Any], error: Exception) -> ArgumentError:
        if self._variadic:
            named = self._named(*values)
        else:
            named = list(zip((p.name for p in self._parameters), values, strict=False))
        for name, value in named if self.form.is_typed else ():
            try:
                self._encode(value)
            except codec.ENCODE_ERRORS as cause:
                problem = f"argument {name!r} cannot travel: {cause}"
                return ArgumentError(self.task, problem, name)
        return ArgumentError(self.task, f"the arguments cannot travel: {error}")

    def _named(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[tuple[str, Any]]:
        """The arguments of a variadic call, each with a name: `rest[1]` for the second of the
        rest."""
        named: list[tuple[str, Any]] = []
        for name, value in self._python.bind(*args, **kwargs).arguments.items():
            kind = self._python.parameters[name].kind
            if kind is inspect.Parameter.VAR_POSITIONAL:
                named += [(f"{name}[{i}]", item) for i, item in enumerate(value)]
            elif kind is inspect.Parameter.VAR_KEYWORD:
                named += value.items()
            else:
                named.append((name, value))
        return named

    def _build_decoder(self) -> Callable[[bytes], Any]:
        if not self.form.is_typed:
            return self.form.decoder(Any)
        if self._variadic:
            self._check_hints()
            return self.form.decoder(tuple[list[Any], dict[str, Any]])
        fields: list[Any] = []
        for position, parameter in enumerate(self._parameters):
            # Not the parameter's own name, which a struct may not be able to have.
            name, kind = f"p{position}", self._hints.get(parameter.name, Any)
            if parameter.default is _EMPTY:
                fields.append((name, kind))
            else:
                fields.append((name, kind, _as_default(parameter.default)))
        # Keyword-only parameters without a default may follow some with one.
        first_default = next((i for i, f in enumerate(fields) if len(f) == 3), len(fields))
        for i in range(first_default, len(fields)):
            if len(fields[i]) == 2:
                fields[i] = (*fields[i], _as_default(_EMPTY))
        try:
            if self._exact:
                kinds = tuple(kind for _, kind in fields)
                return self.form.decoder(tuple[kinds])  # type: ignore[valid-type]
            arguments = msgspec.defstruct(
                "Arguments", fields, array_like=True, forbid_unknown_fields=True
            )
            return self.form.decoder(arguments)
        except TypeError as error:
            raise ConfigError(
                f"task {self.task!r}: its annotations cannot travel: {error}"
            ) from None

    def _check_hints(self) -> None:
        try:
            for parameter in self._parameters:
                self.form.decoder(self._hints.get(parameter.name, Any))
        except TypeError as error:
            raise ConfigError(
                f"task {self.task!r}: its annotations cannot travel: {error}"
            ) from None

    def _decode_own(self, payload: bytes) -> tuple[tuple[Any, ...], dict[str, Any]]:
        try:
            values = list(self._decode(payload))
            if self._variadic:
                return self._converted_variadic(list(values[0]), dict(values[1]))
        except Misfit:
            raise
        except Exception as error:
            raise Misfit(
                f"codec {self.form.name!r}: {str(error) or type(error).__name__}"
            ) from None
        split, names = self._positional, self._keyword_names
        if len(values) > len(self._parameters):
            raise Misfit(f"there are {len(values)} arguments, it takes {len(self._parameters)}")
        named = dict(zip(names, values[split:], strict=False))
        return self._converted_variadic(values[:split], named)

    def _converted_variadic(
        self, args: list[Any], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        try:
            bound = self._python.bind(*args, **kwargs)
        except TypeError as error:
            raise Misfit(str(error)) from None
        for parameter in self._parameters:
            if parameter.name not in bound.arguments:
                continue
            kind, value = self._hints.get(parameter.name, Any), bound.arguments[parameter.name]
            if parameter.kind is parameter.VAR_POSITIONAL:
                value = tuple(self._converted(parameter.name, item, kind) for item in value)
            elif parameter.kind is parameter.VAR_KEYWORD:
                value = {name: self._converted(name, item, kind) for name, item in value.items()}
            else:
                value = self._converted(parameter.name, value, kind)
            bound.arguments[parameter.name] = value
        return bound.args, bound.kwargs

    def _converted(self, name: str, value: Any, kind: Any) -> Any:
        if not self.form.is_typed and _is_made(value, kind):
            return value
        try:
            return codec.convert(value, kind)
        except codec.DECODE_ERRORS as error:
            raise Misfit(f"argument {name!r}: {error}") from None

    def _misfit_text(self, error: Exception) -> str:
        """msgspec says `$[1]`; people look for the parameter's name."""
        text = str(error)
        few = re.search(r"length \d+, got (\d+)$", text)
        if few and not self._variadic and int(few[1]) < len(self._parameters):
            return f"argument {self._parameters[int(few[1])].name!r} is missing: {text}"
        place = re.search(r"`\$\[(\d+)\]", text)
        if place and int(place[1]) < len(self._parameters):
            return f"argument {self._parameters[int(place[1])].name!r}: {text}"
        return text


def _type_hints(function: Callable[..., Any], task: str) -> dict[str, Any]:
    try:
        hints = typing.get_type_hints(function, include_extras=True)
        return {name: Any if kind is object else kind for name, kind in hints.items()}
    except NameError as error:
        raise ConfigError(
            f"task {task!r}: an annotation cannot be resolved ({error}); its types must be "
            "importable where the task is defined, not only under TYPE_CHECKING"
        ) from None


def _find_injected(
    parameters: list[inspect.Parameter], hints: dict[str, Any], injected: type
) -> tuple[str | None, int]:
    for position, parameter in enumerate(parameters):
        if hints.get(parameter.name) is injected:
            return parameter.name, position
    return None, -1


def _as_default(value: Any) -> Any:
    # A factory, because msgspec refuses mutable defaults that Python allows.
    return msgspec.field(default_factory=lambda: value)


def _is_made(value: Any, kind: Any) -> bool:
    """Whether one's own codec gave what the annotation wants, as far as can be seen."""
    if isinstance(kind, type) and not isinstance(value, bool):
        return isinstance(value, kind)
    try:
        codec.decoder(kind)
    except TypeError:
        return True
    return False


def is_async(function: Any) -> bool:
    """Whether it is an async function, or an object with an async `__call__`."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004
    )
