"""Bounds on password guesses: by name, by address, and by browser."""

from __future__ import annotations

import time
import zlib
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address

# Unknown names are counted too, so that nobody learns which names exist; but in shared slots, so
# that they cannot fill the memory.
_SLOTS = 1_024
_MOST_KEPT = 20_000


@dataclass(frozen=True, slots=True)
class Allowance:
    """A number of guesses at once, and one more every `every` seconds."""

    guesses: int
    every: float


# For one name from one address, or from one browser that has logged in before.
OF_PAIR = Allowance(10, 30.0)
# From one address, for any names: an office has many users.
OF_ADDRESS = Allowance(50, 10.0)
# For one name, from all addresses together: a day brings 3,000 guesses at most.
OF_NAME = Allowance(100, 30.0)


class Bucket:
    """What is left of one allowance."""

    def __init__(self, allowance: Allowance, now: float) -> None:
        self.allowance = allowance
        self._left = float(allowance.guesses)
        self._at = now

    def wait(self, now: float) -> float:
        """Seconds until the next guess."""
        self._fill(now)
        return max(0.0, (1 - self._left) * self.allowance.every)

    def take(self, guesses: float) -> None:
        self._left = min(self._left - guesses, float(self.allowance.guesses))

    def _fill(self, now: float) -> None:
        gained = (now - self._at) / self.allowance.every
        self._left = min(self._left + gained, float(self.allowance.guesses))
        self._at = now


class Throttle:
    """Counts each guess before its password is checked, and takes it back if it was right: so
    concurrent guesses count too."""

    def __init__(
        self, names: Callable[[str], bool], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._has = names
        self._clock = clock
        self._buckets: OrderedDict[Hashable, Bucket] = OrderedDict()

    def guess(self, name: str, address: str, device: str | None) -> Guess:
        """Count a guess. `device` marks a browser in which that user has logged in before: it has
        an allowance of its own, which nobody else can use up."""
        slot = name if self._has(name) else zlib.crc32(name.encode(errors="replace")) % _SLOTS
        if device is not None:
            keys: dict[Hashable, Allowance] = {("device", device): OF_PAIR}
        else:
            network = network_of(address)
            keys = {
                ("pair", slot, network): OF_PAIR,
                ("address", network): OF_ADDRESS,
                ("name", slot): OF_NAME,
            }
        return Guess([self._bucket(key, allowance) for key, allowance in keys.items()], self._clock)

    def _bucket(self, key: Hashable, allowance: Allowance) -> Bucket:
        found = self._buckets.pop(key, None) or Bucket(allowance, self._clock())
        self._buckets[key] = found
        while len(self._buckets) > _MOST_KEPT:
            self._buckets.popitem(last=False)
        return found


class Guess:
    """One guess. With a `wait`, in seconds, it is refused and does not count."""

    def __init__(self, buckets: list[Bucket], clock: Callable[[], float]) -> None:
        now = clock()
        self._buckets = buckets
        self.wait = max(bucket.wait(now) for bucket in buckets)
        if not self.wait:
            for bucket in buckets:
                bucket.take(1)

    def was_right(self) -> None:
        for bucket in self._buckets:
            bucket.take(-1)


def network_of(address: str) -> str:
    """The network that counts as one client: an IPv4 address, or an IPv6 /64."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if not isinstance(found, IPv6Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return found.packed[:8].hex()
