"""Where the code raised an error, from the text of its traceback."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.core.job.history import Attempt

_FRAME = re.compile(r'^ *File "([^"\n]+)", line (\d+), in ([^\n]+)$', re.MULTILINE)


def place_of(traceback: str) -> str:
    """The last frame of a traceback, such as `/srv/shop/bank.py:65 in ask`; empty if there is
    none."""
    frames = _FRAME.findall(traceback)
    return "{}:{} in {}".format(*frames[-1]) if frames else ""


def last_place(attempts: Sequence[Attempt]) -> str:
    """Of the last attempt."""
    return place_of(attempts[-1].traceback) if attempts else ""
