"""Checks a server's settings: refuses some, and warns of others that may lose jobs."""

from __future__ import annotations

import logging
from typing import Any

from headrace.errors import ConfigError, StoreError, StoreMismatch
from headrace.store.redis.connection.confirmation import Confirmation
from headrace.store.redis.connection.link import Link

log = logging.getLogger("headrace.store")

MIN_VERSION = (7, 0)
_TELLS_OF_DISK = (7, 2)
_EVICTING = "maxmemory-policy"
_REPLICAS = "min-replicas-to-write"


class Inspection:
    """Reads the settings of one server, or of the nodes of a cluster one after the other."""

    def __init__(self, shown: str, *, confirmation: Confirmation | None, in_cluster: bool) -> None:
        self.known_as = ("Redis", "")
        """Kind and version of the server that was inspected last."""
        self.unread: dict[str, None] = {}
        """Settings that matter and that this user may not read."""
        self._shown = shown
        self._confirmation = confirmation
        self._in_cluster = in_cluster

    @property
    def unread_sentences(self) -> tuple[str, ...]:
        return tuple(map(_may_not_read, self.unread))

    async def inspect(self, link: Link, shown: str) -> list[str]:
        info = _parsed(await link.call("INFO", "everything"))
        version = _version(info)
        if version < MIN_VERSION:
            raise StoreMismatch(
                f"Redis {info.get('redis_version')} at {shown} is too old: "
                "Headrace needs Redis 7.0 or newer, or Valkey"
            )
        self.known_as = _known_as(info)
        if self._confirmation is not None and self._confirmation.on_disk:
            _refuse_forgetful("confirm_disk", info, version, shown)
        if not self._in_cluster and info.get("cluster_enabled") == "1":
            raise ConfigError(
                f"the Redis server at {shown} is part of a cluster: write redis+cluster://host:port"
            )
        return await self._risks(link, info)

    async def _risks(self, link: Link, info: dict[str, str]) -> list[str]:
        risks = []
        if info.get("aof_enabled") == "0":
            risks.append(
                "appendonly is off: a crash of the server loses what came since its last save; set "
                "appendonly yes"
            )
        policy = info.get("maxmemory_policy") or await self._setting(link, _EVICTING)
        risks += _of_eviction(policy or "", int(info.get("maxmemory", "0")))
        risks += await self._replication_risks(link, info)
        if info.get("aof_enabled") == "1" and await self._setting(link, "appendfsync") == "no":
            risks.append("appendfsync is no: a power cut loses what the system had not yet written")
        return risks

    async def _replication_risks(self, link: Link, info: dict[str, str]) -> list[str]:
        replicas, wanted = int(info.get("connected_slaves", "0")), "0"
        confirmed = self._confirmation.replicas if self._confirmation else 0
        if replicas < confirmed:
            return [
                f"it has {replicas} replicas, and confirm_replicas is {confirmed}: sends will fail"
            ]
        if replicas and "min_slaves_good_slaves" in info:
            # INFO shows that the setting is there; only CONFIG has the number.
            wanted = await self._setting(link, _REPLICAS) or ""
            if not wanted:
                log.info(
                    "Redis at %s: %s could not be read; it should be %d, as many as there are "
                    "replicas",
                    *(self._shown, _REPLICAS, replicas),
                    extra={"store": self._shown},
                )
                return []
        return _of_replication(replicas, int(wanted), confirmed)

    async def _setting(self, link: Link, name: str) -> str | None:
        try:
            reply = await link.call("CONFIG", "GET", name)
        except StoreError:
            # Hosted servers hide CONFIG, and the user that the documents advise may not use it.
            self.unread[name] = None
            return None
        return reply[1].decode() if len(reply) > 1 else None


async def check_disk(what: str, link: Link, shown: str) -> None:
    """Refuse a server that cannot confirm writes to its disk, as the option `what` wants."""
    info = _parsed(await link.call("INFO", "everything"))
    _refuse_forgetful(what, info, _version(info), shown)


def _version(info: dict[str, str]) -> tuple[int, ...]:
    return tuple(int(part) for part in info.get("redis_version", "0").split(".")[:2])


def _refuse_forgetful(
    what: str, info: dict[str, str], version: tuple[int, ...], shown: str
) -> None:
    if version < _TELLS_OF_DISK:
        raise ConfigError(
            f"{what} needs Redis 7.2 or newer, or Valkey; the server at {shown} is "
            f"{info.get('redis_version')}"
        )
    if info.get("aof_enabled") == "0":
        raise ConfigError(f"{what} needs appendonly, which is off at {shown}: turn it on")


def _of_eviction(policy: str, maxmemory: int) -> list[str]:
    """What a server does when its memory is full, or would if that had a limit."""
    if policy.startswith("allkeys"):
        if not maxmemory:
            return [f"maxmemory-policy is {policy}: with a maxmemory, jobs would be evicted"]
        return [f"maxmemory-policy is {policy}: jobs may be evicted; set it to noeviction"]
    if policy.startswith("volatile") and maxmemory:
        return [
            f"maxmemory-policy is {policy}: what expires may be evicted before its time, such as "
            "results, counts of rates and unique names, and records of requests: one that is "
            "repeated is then applied twice; set it to noeviction"
        ]
    return []


def _of_replication(replicas: int, wanted: int, confirmed: int) -> list[str]:
    """What a failover may lose: `wanted` is `min-replicas-to-write`, and `confirmed` how many
    replicas have a job before its send returns."""
    if replicas <= max(wanted, confirmed):
        return []
    return [
        f"min-replicas-to-write is {wanted} and there are {replicas} replicas: a failover may lose "
        f"the jobs of the last second; set it to {replicas}"
    ]


def _may_not_read(setting: str) -> str:
    return f"{setting} could not be read, as this user may not CONFIG GET: see to it on the server"


def _known_as(info: dict[str, str]) -> tuple[str, str]:
    """Kind and version. Valkey also reports the Redis version that it is compatible with."""
    if "valkey_version" in info:
        return "Valkey", info["valkey_version"]
    return "Redis", info.get("redis_version", "")


def _parsed(info: Any) -> dict[str, str]:
    lines = info.decode("utf-8", "replace").splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)
