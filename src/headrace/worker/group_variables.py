"""What the environment says about the groups of a worker: `HEADRACE_GROUP_BILLING_CONSUMERS`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from headrace.core.bounds import check_count
from headrace.core.display import meant
from headrace.core.scaling.scaling import read_range
from headrace.errors import ConfigError

PREFIX = "HEADRACE_GROUP_"
CONSUMERS = "_CONSUMERS"
MAX_IN_FLIGHT = "_MAX_IN_FLIGHT"


class GroupCapacity(msgspec.Struct, frozen=True):
    """What a variable puts in place of the options of a group's subscription; None leaves them."""

    consumers: tuple[int, int] | None = None
    max_in_flight: int | None = None


def capacity_by_variable(
    groups: Iterable[str], variables: Mapping[str, str]
) -> dict[str, GroupCapacity]:
    """What the variables say of each group. One that is blank says nothing."""
    known = {_spelt(group): group for group in groups}
    found: dict[str, GroupCapacity] = {}
    for variable, text in _given(variables):
        spelt, option = _divided(variable)
        if spelt in known:
            before = found.get(known[spelt], GroupCapacity())
            found[known[spelt]] = _with(before, option, variable, text)
    return found


def strange_variables(groups: Iterable[str], variables: Mapping[str, str]) -> list[str]:
    """Those for groups that the app does not have, each with the name that may be meant."""
    known = [_spelt(group) for group in groups]
    given = [(variable, _divided(variable)[0]) for variable, _ in _given(variables)]
    return [f"{one}{meant(spelt, known)}" for one, spelt in given if spelt not in known]


def _given(variables: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for variable, text in variables.items():
        if variable.startswith(PREFIX) and text.strip():
            yield variable, text.strip()


def _spelt(group: str) -> str:
    return re.sub(r"[^A-Z0-9]", "_", group.upper())


def _divided(variable: str) -> tuple[str, str]:
    for option in (CONSUMERS, MAX_IN_FLIGHT):
        if variable.endswith(option):
            return variable.removeprefix(PREFIX).removesuffix(option), option
    raise ConfigError(
        f"{variable} is no setting of a group: it ends in {CONSUMERS} or {MAX_IN_FLIGHT}"
    )


def _with(capacity: GroupCapacity, option: str, variable: str, text: str) -> GroupCapacity:
    try:
        if option == CONSUMERS:
            return msgspec.structs.replace(capacity, consumers=read_range(text))
        return msgspec.structs.replace(capacity, max_in_flight=check_count(variable, int(text)))
    except ValueError:
        form = "a number, or two such as 2..8" if option == CONSUMERS else "a number"
        raise ConfigError(f"{variable}={text!r} is not {form}, from 1 on") from None
