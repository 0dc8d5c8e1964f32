"""What a send asks to be certain of."""

from __future__ import annotations

import pytest

from headrace.core.confirming import UNCONFIRMED, Confirming, all_of, read_confirm
from headrace.errors import ConfigError


def test_a_caller_says_it_in_words() -> None:
    assert read_confirm("confirm", None) is UNCONFIRMED
    assert read_confirm("confirm", "replicated") is Confirming.REPLICATED
    assert read_confirm("confirm", "disk") is Confirming.DISK


@pytest.mark.parametrize("odd", [True, 1, "replica", b"disk"])
def test_other_words_are_refused(odd: object) -> None:
    with pytest.raises(ConfigError, match="confirm must be 'replicated' or 'disk', not"):
        read_confirm("confirm", odd)


def test_sends_that_go_together_ask_for_all_that_any_asks_for() -> None:
    assert all_of([]) is UNCONFIRMED
    both = all_of([UNCONFIRMED, Confirming.DISK, Confirming.REPLICATED])
    assert both == Confirming.DISK | Confirming.REPLICATED
