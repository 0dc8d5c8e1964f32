"""What a call waits for, and how it is given results: the threads that make calls a flow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar

from headrace.core.ids import JobKey
from headrace.core.job import Feed
from headrace.errors import ConfigError

if TYPE_CHECKING:
    from headrace.core.call import Call

R_co = TypeVar("R_co", covariant=True)


class Sent(Protocol):
    """The handle of a job that was sent before."""

    key: JobKey


Parent: TypeAlias = "Call[Any] | Sent"


class Step(Generic[R_co]):
    """What can be sent, and waited for: a call, or a flow of them."""

    __slots__ = ()
    is_plain = False

    @property
    def heads(self) -> tuple[Call[Any], ...]:
        """The calls that start first."""
        raise NotImplementedError

    @property
    def ends(self) -> tuple[Call[Any], ...]:
        """The calls whose results are its result."""
        raise NotImplementedError

    @property
    def gives_list(self) -> bool:
        """Whether its result is the list of the results of its ends."""
        return False


class Links:
    """What one call waits for: those that feed it in a chain, and those that `after()` named, each
    with whether the call runs anyway should that one fail."""

    __slots__ = ("_after", "_fed_by", "_fed_list", "_of_group")

    def __init__(self) -> None:
        self._fed_by: tuple[Call[Any], ...] = ()
        self._fed_list = False
        self._after: dict[Parent, bool] = {}
        self._of_group = 0

    def add(self, call: Call[Any], parent: Step[Any] | Sent, runs_anyway: bool) -> None:
        """Have the call wait for the parent; of two times the same the later one counts."""
        ends: Sequence[Parent] | None = getattr(parent, "ends", None)
        if ends is None:
            if isinstance(parent, Step) or not isinstance(getattr(parent, "key", None), bytes):
                raise ConfigError(
                    f"{call!r} can be after calls, flows and jobs, not after {parent!r}"
                )
            ends = (parent,)
        self._after.update(dict.fromkeys(ends, runs_anyway))
        if getattr(parent, "gives_list", False):
            self._of_group = len(ends)

    def feed(self, call: Call[Any], step: Step[Any]) -> None:
        """Have the call be given the results of the step."""
        if self._fed_by:
            raise ConfigError(
                f"{call!r} follows {self._fed_by[0]!r} already; make a call for each place in a "
                "flow"
            )
        self._fed_by, self._fed_list = step.ends, step.gives_list

    def parents(self) -> dict[Parent, bool]:
        """All that the call waits for, in order."""
        fed: dict[Parent, bool] = dict.fromkeys(self._fed_by, False)
        return fed | self._after

    def feeding(self, call: Call[Any]) -> Feed:
        """How the results of the parents become the first argument of the call."""
        count = len(self.parents())
        if self._fed_by:
            feeds, group = call.room is not None, len(self._fed_by) if self._fed_list else 0
            is_list = self._fed_list
        else:
            feeds, group = call.is_open, self._of_group
            is_list = group > 0 or count > 1
        if not feeds:
            return ""
        if group and count > group:
            raise ConfigError(
                f"{call!r} takes the results of a group; it cannot wait for others beside it"
            )
        return "list" if is_list else "one"
