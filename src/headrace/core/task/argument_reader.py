"""Reads the arguments of a job by the parameters that its function has here.

They come as a map by name (see also `further_arguments`). What Python does not send, but others
may, and one's own codec does, is an array in the order of the parameters.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, is_typeddict

import msgspec

from headrace.core import codec
from headrace.core.misfit import Misfit, misfit_of
from headrace.core.payload.codecs import Form
from headrace.core.task.argument_names import with_new_names, with_remedy
from headrace.core.task.further_arguments import VARIADIC, bound_in_order, bound_map
from headrace.errors import ConfigError

_EMPTY = inspect.Parameter.empty

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


class ArgumentReader:
    """Makes the arguments of one function from bytes, converted by its annotations. With
    `ignores_unknown`, what it does not take is left out; `renamed` has the new name of each
    parameter by its old one."""

    def __init__(
        self,
        task: str,
        parameters: Sequence[inspect.Parameter],
        hints: Mapping[str, Any],
        form: Form,
        *,
        ignores_unknown: bool = False,
        renamed: Mapping[str, str] | None = None,
    ) -> None:
        self._task = task
        self._parameters = parameters
        self._hints = hints
        self._form = form
        self._ignores_unknown = ignores_unknown
        self._renamed = renamed or {}
        self._python = inspect.Signature(list(parameters))
        self._variadic = any(p.kind in VARIADIC for p in parameters)
        self._keyword_names = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
        self._positional = len(parameters) - len(self._keyword_names)
        # Old names are looked for before unknown ones are left out.
        self._decode = self._decoder(strict=not ignores_unknown or bool(self._renamed))
        self.read: Callable[[bytes], Arguments] = self._read
        """The arguments, or `Misfit`."""
        if not form.is_typed:
            self.read = self._read_own
        elif self._variadic:
            self.read = self._read_variadic
        elif not self._keyword_names:
            self.read = self._read_positional

    # One step less for most functions.
    def _read_positional(self, payload: bytes) -> Arguments:
        try:
            values = self._decode(payload)
        except codec.DECODE_ERRORS as error:
            values = self._read_otherwise(payload, error)
        return msgspec.structs.astuple(values), {}

    def _read(self, payload: bytes) -> Arguments:
        fields, _ = self._read_positional(payload)
        split = self._positional
        named = dict(zip(self._keyword_names, fields[split:], strict=True))
        for name, value in named.items():
            if value is _EMPTY:
                raise Misfit(f"argument {name!r} is missing: it takes {self._takes}")
        return fields[:split], named

    def _read_otherwise(self, payload: bytes, error: Exception) -> Any:
        """The arguments of a job that is not of this signature by name."""
        names = [p.name for p in self._parameters]
        try:
            if is_array(payload, self._form):
                return self._decode_array(payload)
            if self._renamed:
                return self._decode_renamed(self._with_new_names(payload))
        except codec.DECODE_ERRORS as other:
            error = other
        misfit = misfit_of(error, names, self._takes)
        raise with_remedy(misfit, self._names_in(payload), self._parameters) from None

    def _names_in(self, payload: bytes) -> list[str]:
        try:
            given = self._form.decoder(dict[str, msgspec.Raw])(payload)
        except codec.DECODE_ERRORS:
            return []
        return list(with_new_names(given, self._renamed))

    def _with_new_names(self, payload: bytes) -> bytes:
        given = self._form.decoder(dict[str, msgspec.Raw])(payload)
        return self._form.encode(with_new_names(given, self._renamed))

    def _read_variadic(self, payload: bytes) -> Arguments:
        try:
            if is_array(payload, self._form):
                return self._in_order(self._form.decoder(list[Any])(payload))
            by_name = self._decode(payload)
        except codec.DECODE_ERRORS as error:
            raise misfit_of(error, (), self._takes) from None
        return self._by_names(by_name)

    def _read_own(self, payload: bytes) -> Arguments:
        try:
            values = self._decode(payload)
            if not isinstance(values, Mapping):
                values = list(values)
        except Exception as error:
            raise Misfit(
                f"codec {self._form.name!r}: {str(error) or type(error).__name__}"
            ) from None
        return self._by_names(values) if isinstance(values, Mapping) else self._in_order(values)

    def _by_names(self, given: Mapping[str, Any]) -> Arguments:
        now = with_new_names(given, self._renamed)
        try:
            bound = bound_map(self._python, now, ignores_unknown=self._ignores_unknown)
        except Misfit as error:
            misfit = Misfit(f"{error}: it takes {self._takes}")
            raise with_remedy(misfit, now, self._parameters) from None
        return self._made(bound)

    def _in_order(self, values: list[Any]) -> Arguments:
        takes_all = any(p.kind is p.VAR_POSITIONAL for p in self._parameters)
        most = sum(p.kind not in VARIADIC for p in self._parameters)
        if len(values) > most and not takes_all and not self._ignores_unknown:
            raise Misfit(f"there are {len(values)} arguments: it takes {self._takes}")
        try:
            bound = bound_in_order(self._python, values)
        except TypeError as error:
            raise Misfit(f"{error}: it takes {self._takes}") from None
        return self._made(bound)

    def _made(self, bound: inspect.BoundArguments) -> Arguments:
        """The arguments, converted by the annotations."""
        for parameter in self._parameters:
            if parameter.name not in bound.arguments:
                continue
            kind, value = self._hints.get(parameter.name, Any), bound.arguments[parameter.name]
            if parameter.kind is parameter.VAR_POSITIONAL:
                value = tuple(self._converted(parameter.name, item, kind) for item in value)
            elif parameter.kind is parameter.VAR_KEYWORD:
                value = {name: self._converted(name, item, kind) for name, item in value.items()}
            elif value is not parameter.default:
                value = self._converted(parameter.name, value, kind)
            bound.arguments[parameter.name] = value
        return bound.args, bound.kwargs

    def _converted(self, name: str, value: Any, kind: Any) -> Any:
        if not self._form.is_typed and _is_made(value, kind):
            return value
        try:
            return codec.convert(value, kind)
        except codec.DECODE_ERRORS as error:
            raise misfit_of(error, (), self._takes, inside=name) from None

    @property
    def _takes(self) -> str:
        return f"{self._task}{self._python}"

    def _decoder(self, strict: bool) -> Callable[[bytes], Any]:
        if not self._form.is_typed:
            return self._form.decoder(Any)
        try:
            if self._variadic:
                for parameter in self._parameters:
                    self._form.decoder(self._hints.get(parameter.name, Any))
                return self._form.decoder(dict[str, Any])
            return self._form.decoder(self._by_name(strict))
        except TypeError as error:
            raise ConfigError(
                f"task {self._task!r}: its annotations cannot travel: {error}"
            ) from None

    def _by_name(self, strict: bool) -> type[msgspec.Struct]:
        return msgspec.defstruct(
            "Arguments",
            self._fields(),
            kw_only=True,
            gc=False,
            rename=_wire_names(self._parameters),
            forbid_unknown_fields=strict,
        )

    @cached_property
    def _decode_renamed(self) -> Callable[[bytes], Any]:
        return self._decoder(strict=not self._ignores_unknown)

    @cached_property
    def _decode_array(self) -> Callable[[bytes], Any]:
        fields = self._fields()
        # Keyword-only parameters without a default may follow some with one.
        first_default = next((i for i, f in enumerate(fields) if len(f) == 3), len(fields))
        for i in range(first_default, len(fields)):
            if len(fields[i]) == 2:
                fields[i] = (*fields[i], _as_default(_EMPTY))
        strict = not self._ignores_unknown
        by_place = msgspec.defstruct(
            "Arguments", fields, array_like=True, forbid_unknown_fields=strict
        )
        return self._form.decoder(by_place)

    def _fields(self) -> list[Any]:
        fields: list[Any] = []
        for position, parameter in enumerate(self._parameters):
            # Not the parameter's own name, which a struct may not be able to have.
            name, kind = f"p{position}", self._hints.get(parameter.name, Any)
            if parameter.default is _EMPTY:
                fields.append((name, kind))
            else:
                fields.append((name, kind, _as_default(parameter.default)))
        return fields


def by_name_encoder(
    parameters: Sequence[inspect.Parameter], encode: Callable[[Any], bytes]
) -> Callable[[Sequence[Any]], bytes]:
    """Encodes arguments that are given by position as a map by name, without those at the end that
    are not given."""
    if not parameters:
        empty = encode({})
        return lambda args: empty
    fields = [(f"p{at}", Any, msgspec.UNSET) for at in range(len(parameters))]
    sent = msgspec.defstruct("Sent", fields, gc=False, rename=_wire_names(parameters))

    def encoded(args: Sequence[Any]) -> bytes:
        for each in args:
            if each is msgspec.UNSET:
                # It would be left out without a word.
                raise TypeError("UNSET cannot be sent")
        return encode(sent(*args))

    return encoded


def is_array(payload: bytes, form: Form) -> bool:
    """Whether the arguments come without names."""
    if form.name == "json":
        return payload.lstrip()[:1] == b"["
    return bool(payload) and (0x90 <= payload[0] <= 0x9F or payload[0] in (0xDC, 0xDD))


def _wire_names(parameters: Sequence[inspect.Parameter]) -> dict[str, str]:
    return {f"p{at}": parameter.name for at, parameter in enumerate(parameters)}


def _as_default(value: Any) -> Any:
    # A factory, because msgspec refuses mutable defaults that Python allows.
    return msgspec.field(default_factory=lambda: value)


def _is_made(value: Any, kind: Any) -> bool:
    """Whether one's own codec gave what the annotation wants, as far as can be seen."""
    if kind is Any:
        return True
    try:
        if isinstance(kind, type) and not isinstance(value, bool) and not is_typeddict(kind):
            return isinstance(value, kind)
        codec.decoder(kind)
    except TypeError:
        return True
    return False
