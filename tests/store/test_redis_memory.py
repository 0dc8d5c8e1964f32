"""What a waiting job takes of a Redis server's memory."""

from __future__ import annotations

from collections import Counter
from contextlib import closing

import pytest
import redis

from headrace import Headrace

COUNT = 2000


def used(url: str, namespace: str) -> Counter[str]:
    """Bytes for each job, by kind of key."""
    parts: Counter[str] = Counter()
    with closing(redis.Redis.from_url(url)) as server:
        for name in server.scan_iter(f"{{{namespace}:default}}:*", count=1000):
            kind = name.decode("latin-1").partition("}:")[2].partition(":")[0]
            parts[kind] += server.memory_usage(name, samples=0) or 0
    return Counter({kind: round(size / COUNT) for kind, size in parts.items()})


@pytest.mark.parametrize(
    ("events", "in_batches", "most"),
    [(True, False, 150), (True, True, 150), (False, False, 100), (False, True, 100)],
)
async def test_a_waiting_job_takes_few_bytes(
    redis_url: str, namespace: str, events: bool, in_batches: bool, most: int
) -> None:
    app = Headrace(redis_url, namespace=namespace, events=events)

    @app.task(name="shop.receipt")
    async def send_receipt() -> None: ...

    async with app:
        if in_batches:
            await app.enqueue_many(send_receipt.call() for _ in range(COUNT))
        else:
            for _ in range(COUNT):
                await send_receipt.enqueue()
        parts = used(redis_url, namespace)
        assert parts["jobs"] <= 50, parts
        assert parts["events"] <= 45, parts
        assert parts.total() <= most, parts
        await app.admin.remove_queue("default", force=True)
