"""Lua scripts that differ from the real ones in one place."""

from __future__ import annotations

import pytest

from headrace.store.redis import script_stubs
from headrace.store.redis.script import Script


def alter_scripts(monkeypatch: pytest.MonkeyPatch, text: str, other: str) -> None:
    """Have the store use scripts with `other` wherever they say `text`, until the test is over."""
    altered = 0
    for stub, script in tuple(vars(script_stubs).items()):
        if isinstance(script, Script) and text in script.body:
            monkeypatch.setattr(script_stubs, stub, _altered(script, text, other))
            altered += 1
    assert altered, f"no script says {text!r}"


def _altered(script: Script, text: str, other: str) -> Script:
    # A copy: what is kept of the real one must not be touched, not even for a while.
    copy = Script(script.name)
    copy.body = script.body.replace(text, other)
    return copy
