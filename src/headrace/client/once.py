"""Blocks that are done once per job, however often it runs."""

from __future__ import annotations

from typing import Any, Generic, Protocol, TypeVar

from headrace.core import codec
from headrace.core.bounds import MAX_NAME, MAX_PAYLOAD
from headrace.core.misfit import field_problem
from headrace.errors import ConfigError

T = TypeVar("T")


class OnceMarkers(Protocol):
    """Markers stored with the running job: kept through retries, death and replay."""

    async def recall(self, name: str) -> bytes | None: ...
    async def remember(self, name: str, value: bytes) -> None: ...
    def recall_sync(self, name: str) -> bytes | None: ...
    def remember_sync(self, name: str, value: bytes) -> None: ...


class Once(Generic[T]):
    """What `ctx.once(name)` gives, for `async with`, or for `with` in threads and processes:

        async with ctx.once("charge") as charge:
            if charge.first:
                charge.value = await pay(order, idempotency_key=f"{ctx.job.id}-charge")
        receipt = charge.value

    When the block ends without an error, a marker with its value is stored at once; a later attempt
    finds `first` false and the value. If the block raises, nothing is stored. After a worker died
    inside the block, the next attempt runs it again: pass `ctx.job.id` with the block's name to the
    service that is called there, as its idempotency key.
    """

    value: T
    """Set it within the block. Afterwards it is what a later attempt finds too: the value as it
    travels, by the type that was given to `once`."""

    def __init__(
        self, markers: OnceMarkers, name: str, kind: Any, max_payload: int = MAX_PAYLOAD
    ) -> None:
        self._markers = markers
        self._max_payload = max_payload
        self._name = _checked(name)
        try:
            self._decode = codec.decoder(kind)
        except TypeError as error:
            raise ConfigError(f"once({name!r}): {error}") from None
        self.first = False
        self._entered = False

    def __bool__(self) -> bool:
        """Whether the block is still to be done: the same as `first`."""
        return self.first

    async def __aenter__(self) -> Once[T]:
        return self._begin(await self._markers.recall(self._name))

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None and self.first:
            data, trouble = self._encoded()
            await self._markers.remember(self._name, data)
            self._end(data, trouble)

    def __enter__(self) -> Once[T]:
        return self._begin(self._markers.recall_sync(self._name))

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None and self.first:
            data, trouble = self._encoded()
            self._markers.remember_sync(self._name, data)
            self._end(data, trouble)

    def _begin(self, known: bytes | None) -> Once[T]:
        if self._entered:
            raise ConfigError(f"once({self._name!r}) was entered already: call ctx.once() again")
        self._entered = True
        self.first = known is None
        self.value = self._decoded(_NOTHING if known is None else known)
        return self

    def _encoded(self) -> tuple[bytes, str]:
        """The value as bytes, and its problem. The marker is stored in any case, because running
        the block twice is worse than a missing value: a value that cannot travel is left out."""
        try:
            data = codec.encode(self.value)
            self._decoded(data)
        except (ConfigError, *codec.ENCODE_ERRORS) as error:
            return _NOTHING, f"cannot travel: {error}"
        if len(data) > self._max_payload:
            return _NOTHING, (
                f"takes {len(data):,} bytes, the limit is {self._max_payload:,}: keep a reference "
                "to the data instead, or raise max_payload"
            )
        return data, ""

    def _end(self, data: bytes, trouble: str) -> None:
        if trouble:
            raise ConfigError(
                f"once({self._name!r}): its value {trouble}; the block is noted as done, without "
                "the value"
            )
        self.value = self._decoded(data)

    def _decoded(self, data: bytes) -> T:
        if data == _NOTHING:
            nothing: Any = None
            return nothing  # type: ignore[no-any-return]
        try:
            value: T = self._decode(data)
        except codec.DECODE_ERRORS as error:
            raise ConfigError(
                f"once({self._name!r}): its value does not fit: {field_problem(error)}"
            ) from None
        return value


_NOTHING = codec.encode(None)


def _checked(name: object) -> str:
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME or not name.isprintable():
        raise ConfigError(
            f"once() takes a name of 1 to {MAX_NAME} printable characters, not {name!r}"
        )
    return name
