"""The names of all keys and channels. Nowhere else is one spelled.

All keys of a queue carry the hash tag `{namespace:queue}`, so they live in one slot of a cluster
and a script may touch them together.
"""

from __future__ import annotations

GROUP = "workers"
"""The one consumer group of a job stream."""

RETURNED = "returned"
"""The consumer that owns what a stopping worker handed back: anyone may take it at once."""


def signed(worker: str, lease_ms: int) -> str:
    """The name of a worker in the consumer group: with its lease, by which others judge whether it
    is gone, whatever lease they have themselves."""
    return f"{worker}~{lease_ms}"


def unsigned(consumer: str) -> str:
    return consumer.rpartition("~")[0]


class QueueKeys:
    """The keys of one queue.

    | key        | type   | holds                                                             |
    |------------|--------|-------------------------------------------------------------------|
    | ready      | stream | jobs to run: fields `j` (envelope), `h` (past, if there is one)   |
    | jobs       | hash   | job key → place: an entry id of `ready`, `s` for scheduled, or    |
    |            |        | `d` and an entry id of `dead`                                     |
    | scheduled  | zset   | job key by due time in ms                                         |
    | parked     | hash   | job key → `<length of past>:<past><envelope>` of a scheduled job  |
    | dead       | stream | dead jobs: fields `k` (job key), `r` (reason), `j`, `h`           |
    | epoch      | string | counts the times that leases were taken from their holders       |
    | look       | string | when abandoned jobs were last looked for, and where to go on      |
    | promoter   | string | the consumer that promotes for now; expires by itself             |
    | result + k | string | the verdict on job k; expires by itself                           |
    """

    __slots__ = (
        "dead",
        "due_channel",
        "epoch",
        "finished_channel",
        "jobs",
        "look",
        "parked",
        "promoter",
        "queue",
        "ready",
        "result",
        "scheduled",
    )

    def __init__(self, namespace: str, queue: str) -> None:
        # A colon of the namespace's own must not look like the one between it and the queue.
        escaped = namespace.replace("%", "%25").replace(":", "%3A")
        base = f"{{{escaped}:{queue}}}"
        self.queue = queue
        self.ready = f"{base}:ready"
        self.jobs = f"{base}:jobs"
        self.scheduled = f"{base}:scheduled"
        self.parked = f"{base}:parked"
        self.dead = f"{base}:dead"
        self.epoch = f"{base}:epoch"
        self.look = f"{base}:look"
        self.promoter = f"{base}:ticket:promote"
        self.result = f"{base}:result:"
        self.finished_channel = f"{base}:finished"
        self.due_channel = f"{base}:due"


def queues_key(namespace: str) -> str:
    """The set of names of all queues of a namespace."""
    return f"{{{namespace}}}:queues"
