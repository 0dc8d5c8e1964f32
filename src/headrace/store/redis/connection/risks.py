"""What a server's settings mean for the jobs."""

from __future__ import annotations


def of_eviction(policy: str, maxmemory: int) -> list[str]:
    """What a server does when its memory is full, or would if that had a limit."""
    if policy.startswith("allkeys"):
        if not maxmemory:
            return [f"maxmemory-policy is {policy}: with a maxmemory, jobs would be evicted"]
        return [f"maxmemory-policy is {policy}: jobs may be evicted; set it to noeviction"]
    if policy.startswith("volatile") and maxmemory:
        return [
            f"maxmemory-policy is {policy}: what expires may be evicted before its time, such as "
            "results, counts of rates and unique names; set it to noeviction"
        ]
    return []


def of_replication(replicas: int, wanted: int, confirmed: int) -> list[str]:
    """What a failover may lose: `wanted` is `min-replicas-to-write`, and `confirmed` how many
    replicas have a job before its send returns."""
    if replicas <= max(wanted, confirmed):
        return []
    return [
        f"min-replicas-to-write is {wanted} and there are {replicas} replicas: a failover may lose "
        f"the jobs of the last second; set it to {replicas}"
    ]
