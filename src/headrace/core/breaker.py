"""When something that died may be started again."""

from __future__ import annotations

import math
from typing import Literal

FIRST_PAUSE = 1.0
# One that lived for so long has proved that starting helps.
SURVIVAL = 60.0
QUICK_DEATHS = 5
OPEN_FOR = 300.0

BreakerState = Literal["closed", "open", "half_open"]


class Breaker:
    """Watches over consumers of one kind that are replaced when they die. The pause before the next
    start is 1 s after a quick death, and doubles with each. After five quick deaths in a row it
    opens: nothing is started for five minutes, then one, as a probe. If that one lives for 60 s,
    all is as before; if it dies, it is another five minutes."""

    def __init__(self) -> None:
        self.state: BreakerState = "closed"
        self.deaths = 0
        """All of them, quick or not."""
        self._quick = 0
        self._open_until = -math.inf
        self._youngest_since: float | None = None

    def started(self, now: float) -> None:
        """One was started."""
        self._youngest_since = now
        if self.state == "open":
            self.state = "half_open"

    def died(self, now: float, lived: float) -> float:
        """One died, that lived for so many seconds; how many to wait before it is replaced."""
        self.survived(now)
        self.deaths += 1
        if lived >= SURVIVAL:
            return FIRST_PAUSE
        self._quick += 1
        self._youngest_since = None
        if self.state == "half_open" or (self.state == "closed" and self._quick >= QUICK_DEATHS):
            self.state, self._open_until = "open", now + OPEN_FOR
        if self.state == "open":
            return self._open_until - now
        return FIRST_PAUSE * 2.0 ** (self._quick - 1)

    def survived(self, now: float) -> bool:
        """Whether the latest start has by now lived for long enough, which closes it."""
        if self._youngest_since is None or now - self._youngest_since < SURVIVAL:
            return False
        self.state, self._quick, self._youngest_since = "closed", 0, None
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
