"""Settlements as the arguments of `settle.lua`, and deliveries as scripts name them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar, assert_never

import msgspec

from headrace.core.job.delivery import LeasedDelivery
from headrace.core.job.envelope import FORMATS
from headrace.core.job.history_rules import HistoryRules
from headrace.core.job.outcome import (
    DONE,
    Cancelled,
    Dead,
    Done,
    Held,
    Left,
    Outcome,
    Released,
    Retried,
    UnknownOutcome,
)
from headrace.core.job.tally import Tally
from headrace.store.contract import Settlement
from headrace.store.history.block import Blocks, blocks_of
from headrace.store.redis import facts
from headrace.store.redis.connection.link import Argument
from headrace.store.redis.connection.pubsub import encode_keys
from headrace.store.redis.keys import LOG

KNOWN = frozenset((Done, Retried, Dead, Cancelled, Held, Released))
"""The outcomes that a `Batch` can hold."""

# Lua hands at most 8,000 values to one command; a settlement has up to five.
_MOST = 1000
_MOST_BYTES = 8 * 1024 * 1024
_LOG_LABEL = LOG[:-1]
_Labels = list[tuple[str, int]]
_encode = msgspec.msgpack.Encoder().encode


class Batch:
    """Outcomes that are written in one step. Most are done, and go in columns, those of each stream
    together; the others go one by one with all their values. `tally` is their count; None if facts
    are not recorded."""

    def __init__(
        self,
        settlements: Sequence[Settlement],
        tally: Tally | None,
        rules: HistoryRules | None = None,
        worker: str = "",
    ) -> None:
        self.done: list[LeasedDelivery] = []
        self.kept: list[tuple[LeasedDelivery, Done]] = []
        self._labelled: dict[bytes, list[LeasedDelivery]] = {}
        self._labelled_kept: dict[bytes, list[tuple[LeasedDelivery, Done]]] = {}
        self._done_labels: _Labels = []
        self._kept_labels: _Labels = []
        self.labels = b""
        """How many of `done` and of `kept` are of each stream; empty if all are of `ready`."""
        self.from_log: list[LeasedDelivery] = []
        """Events that are done, and were read from their log."""
        self.constrained = False
        self.moved = 0
        self._moved: list[Argument] = []
        deliveries = [item.delivery for item in settlements]
        self.epoch = min([delivery.epoch for delivery in deliveries])
        self.facts = facts.NONE if tally is None else facts.of_settlements(tally)
        self.history: list[Blocks] = []
        """What is kept of those that are done, for each shelf."""
        if rules is not None:
            columns = None if tally is None else tally.columns
            self.history = blocks_of(rules, settlements, worker, columns, self.facts.data)
        finished: list[bytes] = []
        if not self._sort_alike(settlements, deliveries, finished):
            self._sort_each(settlements, finished)
        self.finished = encode_keys(finished) if finished else b""

    def _sort_alike(
        self,
        settlements: Sequence[Settlement],
        deliveries: list[LeasedDelivery],
        finished: list[bytes],
    ) -> bool:
        """Sort a batch of jobs that are done, all of `ready`, and all with a result or all without,
        or of events of a log: what most batches are. False if it is another."""
        first = receipt_of(deliveries[0])
        if b"/" in first and not first.startswith(LOG):
            return False
        receipts: Any = [delivery.receipt for delivery in deliveries]
        # Joined, each is searched at the speed of C.
        joined, outcomes = b"".join(receipts), [item.outcome for item in settlements]
        labelled, all_done = joined.count(b"/"), outcomes.count(DONE) == len(outcomes)
        if labelled:
            if labelled == joined.count(LOG) == len(deliveries) and all_done:
                self.from_log = deliveries
            return bool(self.from_log)
        if all_done:
            self.done = deliveries
        else:
            kept = [outcome for outcome in outcomes if type(outcome) is Done and outcome.verdict]
            if len(kept) < len(outcomes):
                return False
            self.kept = list(zip(deliveries, kept, strict=True))
            finished += [delivery.job_id for delivery in deliveries]
        self.constrained = bool(b"".join([each.constraints for each in deliveries]))
        return True

    def _sort_each(self, settlements: Sequence[Settlement], finished: list[bytes]) -> None:
        done, labelled = self.done, self._labelled
        for item in settlements:
            delivery = item.delivery
            if item.outcome is not DONE or delivery.constraints:
                self._sort(item, finished)
                continue
            receipt = receipt_of(delivery)
            slash = receipt.find(b"/")
            if slash < 0:
                done.append(delivery)
            elif (same := labelled.get(receipt[:slash])) is not None:
                same.append(delivery)
            else:
                labelled[receipt[:slash]] = [delivery]
        self.from_log += labelled.pop(_LOG_LABEL, ())
        if self._labelled or self._labelled_kept:
            self._done_labels = _joined(done, self._labelled)
            self._kept_labels = _joined(self.kept, self._labelled_kept)
            self.labels = _encode([self._done_labels, self._kept_labels])

    def _sort(self, item: Settlement, finished: list[bytes]) -> None:
        delivery, outcome = item.delivery, item.outcome
        if isinstance(outcome, Done) and receipt_of(delivery).startswith(LOG):
            self.from_log.append(delivery)
            return
        if isinstance(outcome, Done):
            self.constrained = self.constrained or bool(delivery.constraints)
            label, slash, _ = receipt_of(delivery).partition(b"/")
            if outcome.verdict:
                finished.append(delivery.job_id)
                kept = self._labelled_kept.setdefault(label, []) if slash else self.kept
                kept.append((delivery, outcome))
            elif slash:
                self._labelled.setdefault(label, []).append(delivery)
            else:
                self.done.append(delivery)
            return
        self.moved += 1
        receipt, key, count = identity(delivery)
        kind, value, history, verdict, ttl_ms = move_of(item)
        if verdict or kind in ("dead", "cancelled"):
            finished.append(key)
        self._moved += (receipt, key, count, kind, value, history, delivery.envelope)
        self._moved += (verdict, ttl_ms, delivery.constraints, delivery.inputs)

    def blocks(self, checked: bool) -> list[Argument]:
        kept = [delivery for delivery, _ in self.kept]
        blocks = self._columns(self.done, self._done_labels, checked)
        blocks += self._columns(kept, self._kept_labels, checked)
        blocks += [outcome.verdict for _, outcome in self.kept]
        blocks += [outcome.ttl_ms for _, outcome in self.kept]
        receipts: Any = [delivery.receipt for delivery in self.from_log]
        blocks += [receipt[len(LOG) :] for receipt in receipts]
        if checked:
            blocks += [delivery.count for delivery in self.from_log]
        blocks += self._moved
        for shelf, bounds, marks, data in self.history:
            blocks += (shelf, bounds.most, bounds.keep_ms, marks, data)
        return blocks

    def _columns(
        self, deliveries: Sequence[LeasedDelivery], labels: _Labels, checked: bool
    ) -> list[Argument]:
        columns: list[Argument] = [delivery.receipt for delivery in deliveries]
        at = 0
        for label, count in labels:
            start = len(label) + 1 if label else 0
            mine = deliveries[at : at + count]
            columns[at : at + count] = [receipt_of(each)[start:] for each in mine]
            at += count
        columns += [delivery.job_id for delivery in deliveries]
        if checked:
            columns += [delivery.count for delivery in deliveries]
        if self.constrained:
            columns += [delivery.constraints for delivery in deliveries]
        return columns


def move_of(item: Settlement) -> tuple[str, Argument, bytes, bytes, int]:
    """The outcome as kind; delay, reason, gate or format; history; verdict; and how long that is
    kept."""
    delivery, outcome = item.delivery, item.outcome
    match outcome:
        case Retried():
            return "retry", outcome.delay_ms, outcome.history, b"", 0
        case Dead():
            return "dead", outcome.reason, outcome.history, outcome.verdict, outcome.ttl_ms
        case Cancelled():
            history = outcome.history or delivery.history
            return "cancelled", "", history, outcome.verdict, outcome.ttl_ms
        case Held():
            return "held", outcome.gate, outcome.history, b"", 0
        case Released():
            format = FORMATS[outcome.runner] if outcome.runner else ""
            return "released", format, delivery.history, b"", 0
        case Done() | Left():
            # Those go in columns, these are written nowhere.
            raise UnknownOutcome(outcome)
        case _:
            assert_never(outcome)


_Item = TypeVar("_Item")


def _joined(plain: list[_Item], labelled: Mapping[bytes, Sequence[_Item]]) -> _Labels:
    """Adds what is of other streams; the label and the number of those of each."""
    labels = [("", len(plain))]
    for label, items in labelled.items():
        plain += items
        labels.append((label.decode(), len(items)))
    return labels


def parts(settlements: Sequence[Settlement]) -> Iterator[Sequence[Settlement]]:
    """Batches limited in count and in bytes: many small outcomes, or a few large ones."""
    if len(settlements) <= _MOST and _is_small([item.outcome for item in settlements]):
        yield settlements
        return
    start = size = 0
    for at, item in enumerate(settlements):
        if at - start >= _MOST or (size > _MOST_BYTES and at > start):
            yield settlements[start:at]
            start, size = at, 0
        outcome = item.outcome
        if isinstance(outcome, Done):
            size += len(outcome.verdict)
        else:
            size += len(item.delivery.envelope)
    yield settlements[start:]


def _is_small(outcomes: list[Outcome]) -> bool:
    """Whether all are done, and their results fit into one batch."""
    if outcomes.count(DONE) == len(outcomes):
        return True
    sizes = [len(outcome.verdict) for outcome in outcomes if type(outcome) is Done]
    return len(sizes) == len(outcomes) and sum(sizes) <= _MOST_BYTES


def identity(delivery: LeasedDelivery) -> tuple[Argument, bytes, int]:
    # Bytes that are not an envelope have no id; they still get one, by which they can be found.
    receipt = receipt_of(delivery)
    return receipt, delivery.job_id or b"=entry-" + receipt, delivery.count


def receipt_of(delivery: LeasedDelivery) -> bytes:
    receipt = delivery.receipt
    assert isinstance(receipt, bytes)
    return receipt


def named(pairs: Sequence[bytes], deliveries: Sequence[LeasedDelivery]) -> list[LeasedDelivery]:
    """The deliveries that a script returned, as receipts and counts in turn."""
    found = {(receipt, int(count)) for receipt, count in zip(pairs[::2], pairs[1::2], strict=True)}
    return [each for each in deliveries if (each.receipt, each.count) in found]
