"""Ends a process right before or right after the store carried out one verb, as `SHOP_KILL` says:
`settle:before`, `fetch:after` and so on; `cursor` is a write of where `on_dead` has got to."""

from __future__ import annotations

import os
import signal
from collections.abc import Awaitable, Callable
from typing import Any

from headrace.store.redis.consumer import RedisConsumer
from headrace.store.redis.store import RedisStore
from headrace.store.sqlite.consumer import SqliteConsumer
from headrace.store.sqlite.store import SqliteStore

Verb = Callable[..., Awaitable[Any]]


def prepare(url: str) -> None:
    """Set the trap that the environment asks for, if any."""
    verb, _, moment = os.environ.get("SHOP_KILL", "").partition(":")
    if not verb:
        return
    redis = url.startswith("redis")
    owner: Any = RedisConsumer if redis else SqliteConsumer
    if verb in ("append", "cursor"):
        owner = RedisStore if redis else SqliteStore
    name = "kv_set" if verb == "cursor" else verb
    setattr(owner, name, _deadly(getattr(owner, name), verb, moment))


def _deadly(original: Verb, verb: str, moment: str) -> Verb:
    async def deadly(*args: Any, **kwargs: Any) -> Any:
        if verb == "cursor" and args[1] != "on_dead":
            return await original(*args, **kwargs)
        if moment == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        answer = await original(*args, **kwargs)
        if _did_something(verb, answer):
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    return deadly


def _did_something(verb: str, answer: Any) -> bool:
    if verb == "promote":
        return bool(answer.moved)
    return bool(answer) if verb in ("fetch", "reclaim") else True
