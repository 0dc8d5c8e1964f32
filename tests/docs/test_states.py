"""The diagram of a job's states in ARCHITECTURE.md says what the code says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from headrace.core.job.outcome import Left, Outcome
from headrace.core.job.state import State
from headrace.store import contract

PAGE = Path(__file__).parents[2] / "ARCHITECTURE.md"
NOWHERE = "[*]"
STATES = {state.value for state in State}
OUTCOMES = {outcome.__name__ for outcome in get_args(Outcome)}


def diagram() -> str:
    found = re.search(r"^```mermaid\nstateDiagram-v2\n(.*?)^```", PAGE.read_text(), re.M | re.S)
    assert found
    return found[1]


def arrows() -> list[tuple[str, str, list[str]]]:
    """From, to, and the causes: a verb each, with the outcome if it is `settle`."""
    lines = [re.fullmatch(r" {4}(\S+) --> (\S+): (.+)", line) for line in diagram().splitlines()]
    return [(line[1], line[2], causes(line[3])) for line in lines if line]


def causes(label: str) -> list[str]:
    return re.sub(r" \([^)]*\)", "", label).split(", ")


def verbs() -> set[str]:
    """All that can be asked of a store, whichever role offers it."""
    roles = [thing for thing in vars(contract).values() if getattr(thing, "_is_protocol", False)]
    return {name for role in roles for name in dir(role) if not name.startswith("_")}


def drawn(start: str) -> set[str]:
    return {end for begin, end, _ in arrows() if begin == start}


def test_every_line_is_an_arrow_with_a_cause() -> None:
    assert len(arrows()) == len(diagram().splitlines())


def test_every_state_is_drawn_and_no_other() -> None:
    assert {end for arrow in arrows() for end in arrow[:2]} - {NOWHERE} == STATES


@pytest.mark.parametrize(("start", "end", "said"), arrows())
def test_an_arrow_names_verbs_of_a_store(start: str, end: str, said: list[str]) -> None:
    for cause in said:
        verb, _, outcome = cause.partition(" ")
        assert verb in verbs()
        assert not outcome or (verb == "settle" and outcome in OUTCOMES)


def test_every_outcome_that_moves_a_job_is_drawn() -> None:
    said = {cause for start, _, listed in arrows() if start == "running" for cause in listed}
    assert said >= {f"settle {outcome}" for outcome in OUTCOMES - {Left.__name__}}


def test_jobs_come_in_and_those_that_have_ended_do_not_run_again() -> None:
    assert drawn(NOWHERE) == {"waiting", "scheduled", "blocked"}
    for state in State:
        if state.final:
            assert "running" not in drawn(state.value)
        else:
            assert drawn(state.value) - {state.value}
