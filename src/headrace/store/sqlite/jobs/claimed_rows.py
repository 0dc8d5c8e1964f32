"""The rows of jobs that were claimed, as deliveries."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any

from headrace.core.job.delivery import LeasedDelivery
from headrace.store.sqlite.entries import BATCHED, LADEN, json_of

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

# Columns that few jobs use are read apart: each column costs all of them. A column can hold a value
# of any type: it is read as the type that it should have.
COLUMNS = """id, CAST(envelope AS BLOB), count, CAST(position AS INTEGER), CAST(flags AS INTEGER),
    CAST(ready_ms AS INTEGER), CAST(runner AS INTEGER)"""
_LADEN = """
    SELECT id, CAST(priority AS INTEGER), CAST(history AS BLOB), CAST(constraints AS BLOB),
        CAST(inputs AS BLOB), CAST(batch AS INTEGER) FROM jobs
    WHERE id IN (SELECT value FROM json_each(?))"""
_POSITION = itemgetter(3)


class RestOfBatches:
    """Claims all other jobs of the batches of rows that were claimed, by `statement`: its values
    are `before`, the rows, and `after`."""

    def __init__(
        self, statement: str, before: tuple[object, ...], after: tuple[object, ...] = ()
    ) -> None:
        self._statement = statement
        self._before = before
        self._after = after
        self._any = False

    def claim(self, connection: sqlite3.Connection, ids: Sequence[int]) -> list[Any]:
        self._any = True
        values = (*self._before, json_of(ids), *self._after)
        return connection.execute(self._statement, values).fetchall()

    def counted(self, rows: list[Any], deliveries: Sequence[LeasedDelivery]) -> list[Any]:
        """Those of the rows that need room, given all deliveries: one for each batch."""
        if not self._any:
            return rows
        batches = {delivery.receipt: delivery.batch for delivery in deliveries}
        return list({batches[row[0]] or (row[0],): row for row in rows}.values())


def deliveries_of(
    connection: sqlite3.Connection, queue: str, rows: list[Any], rest: RestOfBatches | None = None
) -> list[LeasedDelivery]:
    """The deliveries of rows that were claimed, in order; and of what `rest` claims of the same
    batches, if it is given."""
    # RETURNING promises no order.
    rows.sort(key=_POSITION)
    deliveries = [LeasedDelivery(queue, row[0], row[1], b"", row[2]) for row in rows]
    for delivery, row in zip(deliveries, rows, strict=True):
        delivery.ready_ms = row[5]
    if generation := getattr(connection, "generation", 0):
        for delivery in deliveries:
            delivery.epoch = generation
    laden = [row[0] for row in rows if row[4] & LADEN]
    if not laden:
        return deliveries
    if rest is not None and (batched := [row[0] for row in rows if row[4] & BATCHED]):
        return deliveries_of(connection, queue, [*rows, *rest.claim(connection, batched)])
    return _loaded(connection, deliveries, laden)


def _loaded(
    connection: sqlite3.Connection, deliveries: list[LeasedDelivery], laden: list[int]
) -> list[LeasedDelivery]:
    """The deliveries with histories, constraints and inputs, the highest priority first."""
    by_receipt = {delivery.receipt: delivery for delivery in deliveries}
    priorities: dict[object, int] = {}
    for id, priority, history, constraints, inputs, batch in connection.execute(
        _LADEN, (json_of(laden),)
    ):
        delivery = by_receipt[id]
        delivery.history, delivery.constraints, delivery.inputs = history, constraints, inputs
        if batch:
            delivery.batch = batch
        priorities[id] = priority
    return sorted(deliveries, key=lambda delivery: -priorities.get(delivery.receipt, 0))
