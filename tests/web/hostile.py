"""What jobs may bring to make a page do or show something else."""

from __future__ import annotations

import math
import re
from typing import Any

SCRIPT = "<script>alert(1)</script>"
BREAKER = "\"'><img src=x onerror=alert(1)>"
TURNED = "invoice\u202efdp.exe\u200b\u2066"
CONTROL = "a\x00\x1b[2J\x07\r\nb"
LONG = "x" * 1_048_576


def nested(depth: int) -> Any:
    value: Any = [SCRIPT]
    for _ in range(depth):
        value = [value]
    return value


ARGUMENTS: dict[str, Any] = {
    "script": SCRIPT,
    "breaker": BREAKER,
    "turned": TURNED,
    "control": CONTROL,
    "long": LONG,
    "escaped long": "\u202e" * 300_000,
    "nested": nested(200),
    "keys": {SCRIPT: {BREAKER: TURNED}},
    "odd numbers": [math.nan, math.inf, 2**64 - 1, -(2**63), 1e308],
    "bytes": b"\x00\xff<script>",
    "many": list(range(100_000)),
}


def assert_harmless(page: str, most: int = 200_000) -> None:
    """Nothing in the page is markup that a job has brought, nothing in it is unseen, and it is no
    longer than a page should be."""
    assert len(page) < most
    assert "<script>alert" not in page
    assert "<img src=x" not in page
    assert " onerror=alert(1)>" not in page.replace("&gt;", "")
    unseen = re.search(r"[\x00-\x08\x0b-\x1f\x7f\u200b\u202a-\u202e\u2066-\u2069\ufeff]", page)
    assert unseen is None
