"""The same stores and the same browser as by day."""

from tests.browser.conftest import browser
from tests.faults.conftest import crew, durable_redis, lasting_url, redis_client, wire

__all__ = ["browser", "crew", "durable_redis", "lasting_url", "redis_client", "wire"]
