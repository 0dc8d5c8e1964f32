"""What a run decided. The executor makes one, the settler has the store apply it.

| outcome    | when                                                     | the job is then          |
|------------|----------------------------------------------------------|--------------------------|
| `Done`     | the task returned                                        | done; its result is kept |
| `Again`    | it failed and may be retried, or asked to run later      | scheduled                |
| `Dead`     | it failed for good, or was never fit to run              | dead, with its history   |
| `Released` | the worker stops before the job ended                    | waiting, nothing counted |
"""

from __future__ import annotations

import msgspec


class Done(msgspec.Struct, frozen=True, gc=False):
    verdict: bytes = b""
    """An encoded `Verdict`; empty to keep none."""
    ttl_ms: int = 0


class Again(msgspec.Struct, frozen=True):
    delay_ms: int
    past: bytes
    """An encoded `Past` that includes the delivery at hand."""


class Dead(msgspec.Struct, frozen=True):
    reason: str
    past: bytes
    verdict: bytes = b""
    ttl_ms: int = 0


class Released(msgspec.Struct, frozen=True):
    pass


Outcome = Done | Again | Dead | Released

DONE = Done()
RELEASED = Released()
