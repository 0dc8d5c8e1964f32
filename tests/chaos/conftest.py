"""The same stores as in `tests/faults`."""

from tests.faults.conftest import crew, durable_redis, lasting_url, redis_client, wire

__all__ = ["crew", "durable_redis", "lasting_url", "redis_client", "wire"]
