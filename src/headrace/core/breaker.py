"""When something that died may be started again."""

from __future__ import annotations

import math
from typing import Literal

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0
# One that lived for this long shows that starting helps.
SURVIVAL = 60.0
QUICK_DEATHS = 5
OPEN_FOR = 300.0

BreakerState = Literal["closed", "open", "half_open"]


class Breaker:
    """Watches over consumers of one kind that are replaced when they die. The pause before the next
    start is 1 s after a quick death, and doubles with the next one after that pause, up to a
    minute. After five quick deaths in a row it opens: only one is started at a time, and others
    wait until it has lived for 60 s. While some still live, that is in five minutes; while none
    does, after the pause, so that one is always tried."""

    def __init__(self) -> None:
        self.state: BreakerState = "closed"
        self.deaths = 0
        """All of them, quick or not."""
        self._quick = 0
        self._pause = 0.0
        self._pause_ends = -math.inf
        self._open_until = -math.inf
        self._youngest_since: float | None = None

    def started(self, now: float) -> None:
        """One was started."""
        self._youngest_since = now
        if self.state == "open":
            self.state = "half_open"

    def died(self, now: float, lived: float, others: int = 0) -> float:
        """One died after `lived` seconds, with `others` still alive. Returns the seconds to wait
        before it is replaced."""
        self.survived(now)
        self.deaths += 1
        pause = FIRST_PAUSE if lived >= SURVIVAL else self._died_quickly(now)
        if self.state != "open":
            return pause
        if not others:
            self._open_until = min(self._open_until, now + pause)
        return max(self._open_until - now, 0.0)

    def _died_quickly(self, now: float) -> float:
        self._quick += 1
        self._youngest_since = None
        # Those that die together are one failure.
        if now >= self._pause_ends:
            self._pause = min(max(2 * self._pause, FIRST_PAUSE), LONGEST_PAUSE)
            self._pause_ends = now + self._pause
        if self.state == "half_open" or (self.state == "closed" and self._quick >= QUICK_DEATHS):
            self.state, self._open_until = "open", now + OPEN_FOR
        return self._pause

    def survived(self, now: float) -> bool:
        """Whether the latest start has by now lived for long enough, which closes it."""
        if self._youngest_since is None or now - self._youngest_since < SURVIVAL:
            return False
        self.state, self._quick, self._pause, self._youngest_since = "closed", 0, 0.0, None
        return True

    def wait(self, now: float) -> float:
        """Seconds until another may be started, 0 for now; while there is a probe, those that it
        still has to live."""
        self.survived(now)
        if self.state == "open":
            return max(self._open_until - now, 0.0)
        if self.state == "half_open" and self._youngest_since is not None:
            return self._youngest_since + SURVIVAL - now
        return 0.0
