"""Which deliveries a worker still holds, and which it has lost."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import msgspec

from headrace.store.sqlite.entries import ATTACHED, json_of

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from headrace.core.job.delivery import LeasedDelivery, Receipt

_HELD = f"""
    SELECT json_group_array(id), json_group_array(id) FILTER (WHERE flags & {ATTACHED}), max(queue)
    FROM jobs
    WHERE id IN (SELECT value FROM json_each(?)) AND count = ? AND owner = ? AND state = 'running'
"""


class Holds(msgspec.Struct):
    counts: dict[Receipt, int]
    """Row ids of the deliveries still held, with the count of each: an earlier delivery of the same
    row is lost."""
    attached: list[Receipt]
    """Those of them whose jobs have more than a row."""
    queue: int
    """The number of their queue."""
    lost: list[LeasedDelivery]

    def take(self, delivery: LeasedDelivery) -> bool:
        """Whether a delivery is held; True only once for each."""
        if self.counts.get(delivery.receipt) != delivery.count:
            return False
        del self.counts[delivery.receipt]
        return True


def find(connection: sqlite3.Connection, owner: str, deliveries: Sequence[LeasedDelivery]) -> Holds:
    """Which of these deliveries, all of one queue, `owner` still holds."""
    generation = getattr(connection, "generation", 0)
    by_count = defaultdict(list)
    for delivery in deliveries:
        # A delivery from an earlier file has nothing to do with the rows of this one.
        if delivery.epoch == generation:
            by_count[delivery.count].append(delivery.receipt)
    holds = Holds({}, [], 0, [])
    for count, receipts in by_count.items():
        held = (json_of(receipts), count, owner)
        [(ids, attached, queue)] = connection.execute(_HELD, held).fetchall()
        holds.counts.update(dict.fromkeys(msgspec.json.decode(ids), count))
        holds.queue = queue or holds.queue
        if attached != "[]":
            holds.attached += msgspec.json.decode(attached)
    if len(holds.counts) < len(deliveries):
        rest = msgspec.structs.replace(holds, counts=dict(holds.counts))
        holds.lost = [delivery for delivery in deliveries if not rest.take(delivery)]
    return holds
