"""What is kept of the end of a job."""

from __future__ import annotations

import pytest

from headrace.core.job.envelope import Malformed
from headrace.core.job.state import FINAL, LIVE, State
from headrace.core.job.verdict import Verdict, decode_verdict, encode_verdict


@pytest.mark.parametrize("state", FINAL)
def test_a_verdict_says_how_a_job_ended(state: State) -> None:
    assert decode_verdict(encode_verdict(Verdict(state))).state is state


@pytest.mark.parametrize("state", LIVE)
def test_a_state_in_which_no_job_ends_is_no_verdict(state: State) -> None:
    with pytest.raises(Malformed, match=f"{state} has not ended"):
        decode_verdict(encode_verdict(Verdict(state)))
