"""The parameters of a task's function: arguments in, bytes out, and back.

Arguments travel as one map by the names of the parameters, without those that were not given, so
that the function may change while they wait. One's own codec gets a list in the order of the
parameters, or the map if those are not in order, for there are `*args` or `**kwargs`. An open call
lacks the first argument: in a flow, the result of another job is put there, as the bytes it came
in. Such calls travel as MessagePack, whatever the codec of the task is.
"""

from __future__ import annotations

import copy
import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import msgspec

from headrace.core import codec
from headrace.core.codec import with_first, with_first_named
from headrace.core.misfit import Misfit, UnknownContent
from headrace.core.payload.codecs import PLAIN, Form, form_of, task_form
from headrace.core.payload.kinds import without_none
from headrace.core.task.argument_reader import (
    ArgumentReader,
    Arguments,
    by_name_encoder,
    is_array,
)
from headrace.core.task.batch_items import of_one_item
from headrace.core.task.declaration_mark import mark_of
from headrace.core.task.further_arguments import FURTHER, VARIADIC, as_map
from headrace.core.task.options import TaskOptions
from headrace.core.task.send_options import option_hint
from headrace.core.task.unannotated import unannotated_of
from headrace.errors import ArgumentError, ConfigError

_EMPTY = inspect.Parameter.empty


class Signature:
    """How one function's arguments travel. A parameter annotated with `injected` does not: its
    position is `injected_at`, its name `injected_as`. A `batched` function takes a list and returns
    one (or nothing): what travels is one item of each. `form` is the codec; its content type is in
    `content`, as envelopes name it. Of what arrives, `ignores_unknown` leaves out what the function
    does not take, and `renamed` has new names by old ones."""

    decode: Callable[[bytes], Arguments]
    """The arguments, converted by the annotations, or `Misfit`."""

    def __init__(
        self,
        function: Callable[..., Any],
        task: str,
        injected: type,
        *,
        batched: bool = False,
        form: Form = PLAIN,
        ignores_unknown: bool = False,
        renamed: Mapping[str, str] | None = None,
    ) -> None:
        self.task = task
        hints = _type_hints(function, task)
        parameters = list(inspect.signature(function).parameters.values())
        self.injected_as, self.injected_at = _find_injected(parameters, hints, injected)
        kind = parameters[self.injected_at].kind if self.injected_as is not None else None
        self._injected_by_place = kind is not inspect.Parameter.KEYWORD_ONLY
        self._injected_only_by_place = kind is inspect.Parameter.POSITIONAL_ONLY
        self.can_be_none = hints.get(self.injected_as or "") is not injected
        """Whether the injected parameter may be None: where no worker can fill it."""
        self._parameters = [_as_written(p) for p in parameters if p.name != self.injected_as]
        if batched:
            hints = of_one_item(task, self._parameters, hints)
        self._python = inspect.Signature(self._parameters)
        self._variadic = any(p.kind in VARIADIC for p in self._parameters)
        self._hints = hints
        self._ignores_unknown = ignores_unknown
        self._renamed = self._check_renamed(renamed or {})
        keyword_only = [p for p in self._parameters if p.kind is p.KEYWORD_ONLY]
        self._positional = len(self._parameters) - len(keyword_only)
        self._most, self._least = self._plain_arity(keyword_only)
        self._unannotated = (
            None if batched else unannotated_of(task, function, self._parameters, hints)
        )
        self._use(form)
        self.returns = hints.get("return", Any)

    @classmethod
    def of_task(
        cls, function: Callable[..., Any], declared: TaskOptions, injected: type
    ) -> Signature:
        """The signature of a task's function, as the task declares it."""
        return cls(
            function,
            declared.name,
            injected,
            batched=declared.batch is not None,
            form=task_form(declared.payloads.codec),
            ignores_unknown=declared.unknown_arguments == "ignore",
            renamed=declared.renamed_arguments,
        )

    def _use(self, form: Form) -> None:
        self.form, self.content = form, form.on_the_wire
        self._encode = form.encode
        self._is_named = form.is_typed and not self._variadic
        self._encode_args: Callable[[Sequence[Any]], bytes] = form.encode
        if self._is_named:
            self._encode_args = by_name_encoder(self._parameters, form.encode)
        self.decode = self._reader().read
        self._others: dict[str, Signature] = {}

    def _reader(self) -> ArgumentReader:
        return ArgumentReader(
            self.task,
            self._parameters,
            self._hints,
            self.form,
            ignores_unknown=self._ignores_unknown,
            renamed=self._renamed,
        )

    def of_content(self, content: str) -> Signature:
        """The signature for arguments of this content type; `Misfit` if they cannot be read."""
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

    @cached_property
    def mark(self) -> bytes:
        """What stands for the declaration among workers: see `declaration_mark`."""
        reading = self.content, self._ignores_unknown, dict(self._renamed)
        return mark_of(self._parameters, self._hints, *reading)

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

    def with_injected(self, value: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
        """The arguments with `value` for the injected parameter, if there is one."""
        name, at = self.injected_as, self.injected_at
        if name is None:
            return args, kwargs
        if self._injected_only_by_place:
            # What comes before it has no name either: if it is not given, its default is.
            left_out = [p.default for p in self._parameters[len(args) : at]]
            if any(default is _EMPTY for default in left_out):
                # Python says what is missing.
                return args, kwargs
            args = (*args, *left_out)
        elif at > len(args) or name in kwargs or not self._injected_by_place:
            return args, {**kwargs, name: value}
        return (*args[:at], value, *args[at:]), kwargs

    def is_injected_in(self, kwargs: Mapping[str, Any]) -> bool:
        """Whether these have the injected parameter, which then has a name for callers."""
        return self.injected_as in kwargs and not self._injected_only_by_place

    def encode(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bytes:
        """The arguments as bytes, or an `ArgumentError` that names the one that is wrong."""
        if self._unannotated is not None and self.form.is_typed:
            self._unannotated.check(args, kwargs)
        try:
            if kwargs or not self._least <= len(args) <= self._most:
                return self._encode(self._given(args, kwargs))
            return self._encode_args(args)
        except ArgumentError:
            raise
        except Exception as error:
            raise self._blame(args, kwargs, error) from error

    def encode_declared(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bytes:
        """`encode` of arguments in code: the same bytes in each process that runs the code."""
        if not self.form.is_typed:
            return self.encode(tuple(args), dict(kwargs))
        return self.encode(codec.with_sets_sorted(list(args)), codec.with_sets_sorted(dict(kwargs)))

    def decode_with_first(self, payload: bytes, first: bytes) -> Arguments:
        """`decode` with `first`, an encoded value, before the arguments in `payload`."""
        if is_array(payload, PLAIN):
            spliced = with_first(payload, first)
        elif self._begins_with(inspect.Parameter.VAR_POSITIONAL):
            spliced = _with_first_further(payload, first)
        elif self._begins_with(inspect.Parameter.VAR_KEYWORD):
            raise Misfit(f"there is no first argument: it takes {self.task}{self._python}")
        else:
            spliced = with_first_named(payload, self.first_name, first)
        if spliced is None:
            raise Misfit(
                f"its arguments cannot be read: they are neither a map nor an array; it takes "
                f"{self.task}{self._python}"
            )
        return self.decode(spliced)

    def _begins_with(self, kind: Any) -> bool:
        return bool(self._parameters) and self._parameters[0].kind is kind

    def with_any_first(self) -> Signature:
        """The signature with a first argument of any type."""
        other = copy.copy(self)
        other._hints = {**self._hints, self._parameters[0].name: Any}
        other.decode = other._reader().read
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
            names = [p.name for p in self._parameters[1:]]
            return payload, self._as_plain(dict(zip(names, args, strict=False)))
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
        given or left out, whatever the order of the parameters is. What was renamed counts by its
        first name, so that it is the same for senders of both versions."""
        bound = self._python.bind(*([None, *args] if lacks_first_argument else args), **kwargs)
        for name, parameter in self._python.parameters.items():
            given = bound.arguments.get(name, _EMPTY)
            if given is not _EMPTY and self._is_default(given, parameter.default):
                del bound.arguments[name]
        earlier = {new: old for old, new in reversed(list(self._renamed.items()))}
        named = self._after_first(bound) if lacks_first_argument else as_map(bound)
        named = {earlier.get(name, name): value for name, value in named.items()}
        alike = codec.encode_alike if self.form.is_typed else self._encode
        return alike([lacks_first_argument, [[name, named[name]] for name in sorted(named)]])

    def _is_default(self, value: Any, default: Any) -> bool:
        """Whether leaving it out would mean the same: by its bytes, since True is also 1."""
        if value is default or default is _EMPTY:
            return value is default
        alike = codec.encode_alike if self.form.is_typed else self._encode
        try:
            return alike(value) == alike(default)
        except Exception:
            # A default that cannot travel never does.
            return False

    def outsized(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str | None:
        """The argument that takes the most, by what can be seen without encoding it; None if that
        says nothing of what is sent."""
        if not self.form.is_typed:
            return None
        for given in (args, (None, *args)):
            # The second is an open call.
            try:
                named = self._named(given, kwargs)
            except TypeError:
                continue
            return max(named, key=lambda each: codec.least_size(each[1]))[0]
        # They do not fit at all, which is said elsewhere.
        return None

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

    def _given(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """What travels: those that are given, by name or as a list."""
        bound = self._bound(args, kwargs)
        if self._variadic:
            return as_map(bound)
        if self._is_named:
            return bound.arguments
        names = [p.name for p in self._parameters]
        sent = max((names.index(name) + 1 for name in bound.arguments), default=0)
        bound.apply_defaults()
        return [bound.arguments[name] for name in names[:sent]]

    def _bound(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> inspect.BoundArguments:
        if self.injected_as in kwargs:
            problem = f"argument {self.injected_as!r} is filled in by the worker: do not give it"
            raise ArgumentError(self.task, problem, self.injected_as)
        try:
            return self._python.bind(*args, **kwargs)
        except TypeError as error:
            expected = f"{self.task}{self._python}"
            taken = self._python.parameters
            hint = option_hint(self.task, {n: kwargs[n] for n in kwargs if n not in taken})
            raise ArgumentError(self.task, f"{error}; it takes {expected}{hint}") from None

    def _encode_after_first(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bytes | None:
        if not self._variadic and not self._has_room(args, kwargs):
            return None
        try:
            bound = self._bound([None, *args], kwargs)
        except ArgumentError:
            return None
        rest = self._after_first(bound)
        if self.form is not PLAIN:
            return self._as_plain(rest)
        try:
            return codec.encode(rest)
        except codec.ENCODE_ERRORS as error:
            raise self._blame([None, *args], kwargs, error) from error

    def _after_first(self, bound: inspect.BoundArguments) -> dict[str, Any]:
        named = as_map(bound)
        if self._begins_with(inspect.Parameter.VAR_POSITIONAL):
            further = named.pop(FURTHER)[1:]
            return {FURTHER: further, **named} if further else named
        named.pop(self.first_name, None)
        return named

    def _as_plain(self, values: Any) -> bytes | None:
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

    def _blame(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], error: Exception
    ) -> ArgumentError:
        for name, value in self._named(args, kwargs) if self.form.is_typed else ():
            try:
                self._encode(value)
            except codec.ENCODE_ERRORS as cause:
                problem = f"argument {name!r} cannot travel: {cause}"
                return ArgumentError(self.task, problem, name)
        return ArgumentError(self.task, f"the arguments cannot travel: {error}")

    def _named(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[tuple[str, Any]]:
        """The arguments of a call, each with a name: `rest[1]` for the second of the rest."""
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

    def _check_renamed(self, renamed: Mapping[str, str]) -> Mapping[str, str]:
        names = [p.name for p in self._parameters if p.kind not in VARIADIC]
        where = f"task {self.task!r}: renamed_arguments"
        for old, new in renamed.items():
            if new not in names:
                raise ConfigError(
                    f"{where} says that {old!r} is {new!r} now: there is no such argument; it "
                    f"takes {self.task}{self._python}"
                )
            if old in names:
                raise ConfigError(f"{where}: {old!r} is an argument of the task: leave it out")
        return renamed


def _with_first_further(payload: bytes, first: bytes) -> bytes | None:
    """A map with one more item at the head of what `*args` takes."""
    try:
        given = codec.decoder(dict[str, msgspec.Raw])(payload)
    except codec.DECODE_ERRORS:
        return None
    further = with_first(bytes(given.get(FURTHER, b"\x90")), first)
    return None if further is None else codec.encode({**given, FURTHER: msgspec.Raw(further)})


class _Written(str):
    """An annotation that is a text, as with `from __future__ import annotations`: messages show it
    without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _as_written(parameter: inspect.Parameter) -> inspect.Parameter:
    if not isinstance(parameter.annotation, str):
        return parameter
    return parameter.replace(annotation=_Written(parameter.annotation))


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
        if without_none(hints.get(parameter.name)) is injected:
            return parameter.name, position
    return None, -1


def is_async(function: Any) -> bool:
    """Whether it is an async function, or an object with an async `__call__`."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004
    )
