"""Keys of a later Headrace, which this one would misread, are left alone."""

from __future__ import annotations

from contextlib import closing

import pytest
from redis import Redis

from headrace import Headrace, StoreMismatch
from headrace.store.redis.keys import layout_key


async def test_keys_of_a_later_version_are_refused(redis_url: str, namespace: str) -> None:
    app = Headrace(redis_url, namespace=namespace)
    with closing(Redis.from_url(redis_url)) as redis:
        redis.set(layout_key(namespace), 2, ex=600)
        with pytest.raises(StoreMismatch, match=r"newer Headrace \(layout 2.*upgrade headrace"):
            await app.session()
        redis.set(layout_key(namespace), 1, ex=600)
    async with app:
        assert await app.admin.queues() == []
