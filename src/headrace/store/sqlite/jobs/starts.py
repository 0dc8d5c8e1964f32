"""Starts of runs: counted for limits, and recorded in the events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.store.sqlite import entries
from headrace.store.sqlite.gates import limits
from headrace.store.sqlite.jobs import leases

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.core.job.delivery import LeasedDelivery
    from headrace.store.contract import RunStart
    from headrace.store.sqlite.change import Change


def begin(
    change: Change, owner: str, deliveries: Sequence[LeasedDelivery]
) -> dict[LeasedDelivery, str]:
    """Count the starts of jobs with limits; returns the refused ones with their limit's name."""
    holds = leases.find(change.connection, owner, deliveries)
    change.number = holds.queue
    found = entries.by_ids(change.connection, holds.attached) if holds.attached else {}
    refused: dict[LeasedDelivery, str] = {}
    begun = []
    for delivery in deliveries:
        # Limits do not stop a job that is no longer held: its outcome will be refused.
        entry = found.get(delivery.receipt) if holds.take(delivery) else None
        if entry is None:
            continue
        if gate := limits.begin(change, entry):
            refused[delivery] = gate
        else:
            begun.append(entry)
    entries.save(change.connection, begun)
    return refused


def record_starts(change: Change, owner: str, starts: Sequence[RunStart]) -> None:
    """Keep the starts of runs that go on."""
    holds = leases.find(change.connection, owner, [each.delivery for each in starts])
    change.number = holds.queue
    for each in starts:
        if holds.take(each.delivery):
            change.record(*each.fact)
