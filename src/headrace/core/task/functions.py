"""What can be told of a function before it is called."""

from __future__ import annotations

import inspect
from typing import Any


def is_async(function: Any) -> bool:
    """Whether it is an async function, or an object that is called like one."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004
    )
