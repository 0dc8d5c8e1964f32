"""Names of arguments that are not what they were: renamed, removed, added."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from headrace.core.misfit import NO_SUCH, Misfit
from headrace.core.task.further_arguments import VARIADIC


def with_new_names(given: Mapping[str, Any], renamed: Mapping[str, str]) -> dict[str, Any]:
    """The arguments by the names that they have now; if some have several, by the newest: that of
    now, or else the last of `renamed`."""
    kept = {name: value for name, value in given.items() if name not in renamed}
    moved = {new: given[old] for old, new in renamed.items() if old in given}
    return {**moved, **kept}


def with_remedy(
    misfit: Misfit, given: Collection[str], parameters: Iterable[inspect.Parameter]
) -> Misfit:
    """The misfit, with what would help if there is no such argument."""
    if not str(misfit).startswith(NO_SUCH):
        return misfit
    names = {p.name: p.default is p.empty for p in parameters if p.kind not in VARIADIC}
    unknown = [name for name in given if name not in names]
    missing = [name for name, needed in names.items() if needed and name not in given]
    remedy = "with unknown_arguments='ignore' on the task it would run without it"
    if len(unknown) == len(missing) == 1:
        remedy = (
            f"if it is {missing[0]!r} now, declare the task with "
            f"renamed_arguments={{{unknown[0]!r}: {missing[0]!r}}}"
        )
    elif missing:
        remedy = f"what it needs and did not get: {', '.join(map(repr, missing))}"
    return Misfit(f"{misfit}; {remedy}")
