"""When a failed job runs again."""

from __future__ import annotations

import random
import sys
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Literal, get_args

from headrace.core.bounds import check_count, check_seconds
from headrace.core.clock import Duration
from headrace.core.foreign_words import for_retries, for_runs
from headrace.core.wrong_use import Hint, checks_options
from headrace.errors import ConfigError

Backoff = Literal["exponential", "linear", "fixed"]
ErrorFilter = type[BaseException] | str
OnTimeout = Literal["retry", "dead", "defer"]
"""What a run that took too long means: a failed attempt, the end, or nothing that counts."""
MAX_DEFERS = 1000
_MINUTE = 60.0
_FOREIGN: dict[str, Hint] = {
    **dict.fromkeys(
        ("max_retries", "retries", "max"),
        lambda given: for_retries(given).replace("retry=", ""),
    ),
    **dict.fromkeys(
        ("max_tries", "attempts", "count", "times", "stop"),
        lambda given: for_runs(given).replace("retry=", ""),
    ),
    **dict.fromkeys(
        ("delay", "wait", "interval", "default_retry_delay", "min_backoff", "retry_backoff"),
        "write base=…, in seconds",
    ),
    **dict.fromkeys(("max_delay", "max_backoff", "max_wait", "backoff_max"), "write cap=…"),
    **dict.fromkeys(("autoretry_for", "exceptions", "errors", "retry_on", "exc"), "write on=(…,)"),
    **dict.fromkeys(("throws", "dont_autoretry_for", "exclude", "not_on"), "write never=(…,)"),
}
"""What other libraries call it."""


def check_timeouts(where: str, options: Mapping[str, Any]) -> None:
    """Refuse an `on_timeout` beside a `timeout` of None: nothing would ever time out."""
    if options.get("timeout", 0) is None and options.get("on_timeout") is not None:
        raise ConfigError(
            f"{where}timeout=None is no limit, so on_timeout={options['on_timeout']!r} would do "
            "nothing: give a timeout, or leave on_timeout out"
        )


def check_on_timeout(what: str, given: object) -> OnTimeout:
    """`given` if a run that takes too long can mean that."""
    for known in get_args(OnTimeout):
        if given == known:
            found: OnTimeout = known
            return found
    raise ConfigError(f"{what} must be 'retry', 'dead' or 'defer', not {given!r}")


def timeout_means(override: str, declared: OnTimeout) -> OnTimeout:
    """What a call says about its timeout, or else its task; a newer sender may say other things."""
    try:
        return check_on_timeout("on_timeout", override) if override else declared
    except ConfigError:
        return declared


@dataclass(frozen=True, init=False)
class Retry:
    """A retry policy: how many runs in all, how long between them, after which errors.

    Args:
        max_attempts: Runs in all, the first included; `Retry(1)` never retries.
        backoff: How pauses grow: "exponential" (`base`, then 2, 4, 8 times it), "linear" (2, 3, 4
            times), "fixed", or a list of lengths of time, whose last one repeats.
        base: The first pause: seconds or a timedelta.
        cap: The longest pause: seconds or a timedelta. Unless said, pauses grow up to a minute, or
            up to `base` if that is longer, and those of a list are as long as it says.
        jitter: Whether each pause is drawn evenly from zero to its full length, so that jobs that
            failed together do not come back together.
        on: Only errors of these classes, or of classes with these full names, are retried; all are
            unless said.
        never: Errors of these are not retried; wins over `on`. Both take one or several.
    """

    max_attempts: int
    backoff: Backoff | tuple[float, ...]
    base: float
    cap: float
    jitter: bool
    on: tuple[ErrorFilter, ...]
    never: tuple[ErrorFilter, ...]

    @checks_options("Retry()", _FOREIGN)
    def __init__(
        self,
        max_attempts: int = 3,
        *,
        backoff: Backoff | Sequence[Duration] = "exponential",
        base: Duration = 1.0,
        cap: Duration | None = None,
        jitter: bool = True,
        on: ErrorFilter | Sequence[ErrorFilter] = (),
        never: ErrorFilter | Sequence[ErrorFilter] = (),
    ) -> None:
        set_field = object.__setattr__
        set_field(self, "max_attempts", check_count("Retry(max_attempts)", max_attempts))
        set_field(self, "backoff", _checked_backoff(backoff))
        set_field(self, "base", check_seconds("Retry(base=)", base))
        set_field(
            self, "cap", self._longest() if cap is None else check_seconds("Retry(cap=)", cap)
        )
        if not isinstance(jitter, bool):
            raise ConfigError(f"Retry(jitter=) must be True or False, not {jitter!r}")
        set_field(self, "jitter", jitter)
        set_field(self, "on", _checked_filters("on", on))
        set_field(self, "never", _checked_filters("never", never))

    def delay(self, attempt: int, rng: random.Random | None = None) -> float:
        """Seconds between the end of attempt number `attempt` (from 1) and the next.

        Args:
            attempt: The number of the attempt that failed, from 1.
            rng: Where jitter is drawn from.
        """
        full = min(self._curve(attempt), self.cap)
        return (rng or random).uniform(0.0, full) if self.jitter else full

    def retries(self, error: BaseException) -> bool:
        """Whether this kind of error is worth another run.

        Args:
            error: What the function raised.
        """
        if any(_matches(error, kind) for kind in self.never):
            return False
        return not self.on or any(_matches(error, kind) for kind in self.on)

    def _longest(self) -> float:
        """The cap if none is given: no pause that was asked for is cut."""
        asked = self.backoff if isinstance(self.backoff, tuple) else (self.base,)
        return max(_MINUTE, *asked)

    def _curve(self, attempt: int) -> float:
        if isinstance(self.backoff, tuple):
            return self.backoff[min(attempt, len(self.backoff)) - 1]
        if self.backoff == "fixed":
            return self.base
        if self.backoff == "linear":
            return self.base * attempt
        # Above 2**60 every base is past every cap, and floats would overflow.
        return self.base * 2.0 ** min(attempt - 1, 60)


def _checked_backoff(backoff: object) -> Backoff | tuple[float, ...]:
    if backoff in ("exponential", "linear", "fixed"):
        return backoff
    if isinstance(backoff, (str, bytes)) or not isinstance(backoff, Sequence) or not backoff:
        raise ConfigError(
            "Retry(backoff=) must be 'exponential', 'linear', 'fixed' or a list of seconds, "
            f"not {backoff!r}"
        )
    return tuple(check_seconds("Retry(backoff=)", delay) for delay in backoff)


def _checked_filters(option: str, kinds: object) -> tuple[ErrorFilter, ...]:
    if isinstance(kinds, (type, str)):
        kinds = (kinds,)
    if not isinstance(kinds, Sequence | Set):
        raise ConfigError(f"Retry({option}=) must be a tuple of exception classes, not {kinds!r}")
    for kind in kinds:
        if not isinstance(kind, str) and not (
            isinstance(kind, type) and issubclass(kind, BaseException)
        ):
            raise ConfigError(f"Retry({option}=) holds {kind!r}, which is not an exception class")
    return tuple(kinds)


def full_name(kind: type) -> str:
    """The name by which an exception class travels. Built-in ones have no module; those of the
    program that is being run have the name under which others would import it."""
    module = kind.__module__
    if module == "builtins":
        return kind.__qualname__
    return f"{_main_name() if module == '__main__' else module}.{kind.__qualname__}"


def _main_name() -> str:
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        return str(spec.name).removesuffix(".__main__")
    from pathlib import PurePath

    return PurePath(getattr(main, "__file__", None) or "__main__").stem


class RemoteError(Exception):
    """An error that was raised in another process: its class is known by name only."""

    def __init__(self, names: Sequence[str], text: str, traceback: str) -> None:
        super().__init__(text)
        self.names = tuple(names)
        self.traceback = traceback


def names_of(error: BaseException) -> tuple[str, ...]:
    """The names of an error's class and of all it derives from."""
    if isinstance(error, RemoteError):
        return error.names
    return tuple(full_name(base) for base in type(error).__mro__)


def _matches(error: BaseException, kind: ErrorFilter) -> bool:
    if isinstance(kind, str):
        return kind in names_of(error)
    return isinstance(error, kind) or full_name(kind) in names_of(error)
