"""Which constraints of a job are made of its arguments, and would be others with new ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headrace.core.job.constraints import RATE_GATE, Constraints, batch_gate, rate_gate
from headrace.core.task.options import TaskOptions
from headrace.core.task.signature import Signature
from headrace.core.task.uniqueness import LabelMaker, digest, unique_name

GivenArguments = tuple[Sequence[Any], Mapping[str, Any]]
"""By position, and by name."""
_Make = Callable[[GivenArguments], str]


class ArgumentLabels:
    """Compares the constraints of a task's jobs with what its options make of arguments. Those that
    lack the first argument, since other jobs give it, make only a unique name of all the others."""

    def __init__(
        self, declared: TaskOptions, signature: Signature, make_batch_key: LabelMaker | None
    ) -> None:
        self._declared = declared
        self._label = declared.label
        self._signature = signature
        self._make_batch_key = make_batch_key

    def changed(
        self,
        kept: Constraints,
        old: Sequence[GivenArguments],
        new: Sequence[GivenArguments],
        *,
        lacks_first_argument: bool = False,
    ) -> str | None:
        """The option whose text in `kept` was made of the old arguments, and would be another of
        the new ones; None if there is none. What the call gave itself does not change. `old` and
        `new` have the arguments in each way in which a sender may give them."""
        if self._unique_changes(kept, old, new, lacks_first_argument):
            return "unique"
        if lacks_first_argument:
            return None
        limit = next((each.name for each in kept.limits if each.name.startswith(RATE_GATE)), "")
        if _changes(limit, self._maker(self._declared.rate_key, rate_gate), old, new):
            return "rate_key"
        gathering = kept.gathering.name if kept.gathering else ""
        if _changes(gathering, self._maker(self._make_batch_key, batch_gate), old, new):
            return "batch_key"
        return None

    def _unique_changes(
        self,
        kept: Constraints,
        old: Sequence[GivenArguments],
        new: Sequence[GivenArguments],
        lacks_first_argument: bool,
    ) -> bool:
        # A debounced job had its name only until it was due.
        if not kept.unique or kept.debounced:
            return False
        declared = self._declared.unique.by
        if callable(declared) and not lacks_first_argument:
            make = self._maker(declared, unique_name)
            if kept.unique in _made(make, new):
                return False
            if _changes(kept.unique, make, old, new):
                return True
        if kept.unique.startswith(f"{self._label}:"):
            return False

        def by_all(given: GivenArguments) -> str:
            return digest(self._label, self._signature.fingerprint(*given, lacks_first_argument))

        # A digest does not show what it was made of. It may be of these arguments in yet another
        # form, so it stays only if they do.
        return _made(by_all, new).isdisjoint({kept.unique, *_made(by_all, old)})

    def _maker(self, make: LabelMaker | None, name: Callable[[str, str], str]) -> _Make | None:
        if make is None:
            return None
        return lambda given: name(self._label, make(*given[0], **given[1]))


def _changes(
    kept: str, make: _Make | None, old: Sequence[GivenArguments], new: Sequence[GivenArguments]
) -> bool:
    if not kept or make is None or kept in _made(make, new):
        return False
    before = _made(make, old)
    # If nothing can be made of the old ones any more, nobody knows where it came from.
    return kept in before or not before


def _made(make: _Make | None, ways: Sequence[GivenArguments]) -> set[str]:
    """The texts of those for which it can be made: the user's function may raise anything."""
    made: set[str] = set()
    for given in ways:
        try:
            made |= set() if make is None else {make(given)}
        except Exception:
            continue
    return made
