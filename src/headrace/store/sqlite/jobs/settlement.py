"""Applying outcomes, to deliveries that are still held."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, assert_never

from headrace.core.job.constraints import decode_constraints
from headrace.core.job.envelope import peek_id
from headrace.core.job.outcome import RELEASED, Cancelled, Dead, Done, Held, Released, Retried
from headrace.core.job.state import State
from headrace.core.job.tally import Tally
from headrace.core.job.verdict import CANCELLED_VERDICT
from headrace.core.queue_names import group_source
from headrace.store.contract import Settlement
from headrace.store.fact_block import encode_settled
from headrace.store.history.block import blocks_of
from headrace.store.sqlite import entries
from headrace.store.sqlite.entries import CANCELLING, CHILDREN, IN_FLOW, LADEN, MARKED, REPORTED
from headrace.store.sqlite.gates.flows import ending_of
from headrace.store.sqlite.inspection.facts import task_of
from headrace.store.sqlite.jobs import completion, history_writer, leases, pruning, requeue
from headrace.store.sqlite.rows import bounded_ms, run_rows
from headrace.store.sqlite.topics import stopped_keys
from headrace.store.values import EndedJob, JobEnding

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.core.job.delivery import LeasedDelivery, Receipt
    from headrace.core.job.ids import JobId
    from headrace.store.sqlite.change import Change
    from headrace.store.sqlite.entries import Entry

Settled = list[tuple["LeasedDelivery", Any]]

_KEEP = """
    WITH ended (id, expires_ms, verdict) AS (VALUES {rows})
    INSERT INTO results (queue, job_id, expires_ms, verdict)
    SELECT jobs.queue, jobs.job_id, ended.expires_ms, ended.verdict
    FROM ended JOIN jobs ON jobs.id = ended.id
    WHERE true
    ON CONFLICT (queue, job_id) DO UPDATE
    SET expires_ms = excluded.expires_ms, verdict = excluded.verdict"""
_MARK_DEAD = f"""
    WITH dead (id, died_ms, reason, history) AS (VALUES {{rows}})
    UPDATE jobs SET state = 'dead', time_ms = dead.died_ms, reason = dead.reason,
        history = dead.history, owner = '', lane = '', task_lane = '',
        flags = flags & {MARKED | REPORTED | CHILDREN | IN_FLOW} | {LADEN}
    FROM dead WHERE jobs.id = dead.id"""
_ENDS = (Done, Dead, Cancelled)
"""What `_end` applies."""
_MOVES: dict[type, Callable[[Change, Settled, dict[Receipt, Entry]], None]] = {
    Retried: requeue.retry,
    Held: lambda change, settled, _: requeue.hold(change, settled),
    Released: lambda change, settled, _: requeue.release(change, settled),
}
_IN_ORDER = (*_ENDS, *_MOVES)
"""In which order the facts of one step are written."""
KNOWN = frozenset(_IN_ORDER)
"""The outcomes that `settle` applies; it would pass over any other in silence."""


def settle(
    change: Change,
    owner: str,
    settlements: Sequence[Settlement],
    tally: Tally | None = None,
    *,
    makes_room: bool = False,
) -> list[LeasedDelivery]:
    """Apply the outcomes of deliveries that `owner` still holds; returns the lost ones. All are of
    `KNOWN`. `tally` is the count of all outcomes, if the caller has it; `makes_room` says that
    workers may wait until fewer jobs of the queue run."""
    holds = leases.find(change.connection, owner, [each.delivery for each in settlements])
    if not holds.counts:
        return holds.lost
    change.number = holds.queue
    attached = entries.by_ids(change.connection, holds.attached) if holds.attached else {}
    by_kind: dict[type, Settled] = defaultdict(list)
    for each in settlements:
        if holds.take(each.delivery):
            by_kind[type(each.outcome)].append((each.delivery, each.outcome))
    if attached or by_kind[Cancelled]:
        _apply_cancel_requests(by_kind, attached)
        tally = None
    if change.facts is not None:
        tally = _record(change, by_kind, None if holds.lost else tally)
    if change.keeps_history:
        whole = len(by_kind[Done]) == len(settlements)
        done = settlements if whole else [Settlement(*each) for each in by_kind[Done]]
        _keep_done(change, owner, done, attached, tally if whole else None)
        _keep_cancelled(change, owner, by_kind[Cancelled], attached)
    _end(change, by_kind, attached)
    for kind, move in _MOVES.items():
        if moved := by_kind[kind]:
            move(change, moved, attached)
    if makes_room:
        change.notify("ready")
    return holds.lost


def _apply_cancel_requests(by_kind: dict[type, Settled], attached: dict[Receipt, Entry]) -> None:
    """A job that was cancelled while it ran does not go on, unless it has ended by itself. One that
    was not cancelled is handed back: its worker ended it for an earlier job with the same id."""
    stopping = {receipt for receipt, entry in attached.items() if entry.flags & CANCELLING}
    for delivery, _ in _taken_out(by_kind, Cancelled, stopping, wanted=False):
        by_kind[Released].append((delivery, RELEASED))
    for kind in _MOVES:
        for delivery, outcome in _taken_out(by_kind, kind, stopping, wanted=True):
            by_kind[Cancelled].append(
                (delivery, Cancelled(history=getattr(outcome, "history", b"")))
            )


def _taken_out(
    by_kind: dict[type, Settled], kind: type, stopping: set[Receipt], *, wanted: bool
) -> Settled:
    """Remove and return the settlements of a kind whose job should stop, or should not."""
    chosen = [each for each in by_kind[kind] if (each[0].receipt in stopping) is wanted]
    if chosen:
        by_kind[kind] = [each for each in by_kind[kind] if (each[0].receipt in stopping) != wanted]
    return chosen


def _record(change: Change, by_kind: dict[type, Settled], tally: Tally | None) -> Tally:
    """Write the facts; returns the count of what is settled."""
    settled = [Settlement(*each) for kind in _IN_ORDER for each in by_kind[kind]]
    for each in settled:
        if not each.delivery.job_id:
            each.delivery.identify()
    if tally is None or len([kind for kind in _IN_ORDER if by_kind[kind]]) > 1:
        tally = Tally.of(settled, lambda delivery: delivery.ready_ms)
    if settled:
        change.ended = len(settled), encode_settled(tally.columns)
    for (name, task), count in tally.counts.items():
        change.count(task, name, count)
    return tally


def _keep_done(
    change: Change,
    owner: str,
    done: Sequence[Settlement],
    attached: dict[Receipt, Entry],
    tally: Tally | None,
) -> None:
    """Write what is kept of done jobs, while their progress is still there. `tally` is their count,
    if the caller has it."""
    if not done:
        return
    columns = None if tally is None else tally.columns
    facts = change.ended[1] if columns is not None and change.ended[0] == len(done) else b""
    blocks = blocks_of(change.history_rules, done, owner, columns, facts)
    history_writer.write(change, blocks, _progress(change, attached))


def _keep_cancelled(
    change: Change, owner: str, cancelled: Settled, attached: dict[Receipt, Entry]
) -> None:
    if cancelled:
        jobs = [_cancelled(change, owner, delivery, outcome) for delivery, outcome in cancelled]
        history_writer.write_jobs(change, jobs, _progress(change, attached))


def _progress(change: Change, attached: dict[Receipt, Entry]) -> dict[JobId, bytes]:
    reported = [entry.job_id for entry in attached.values() if entry.flags & REPORTED]
    return history_writer.progress_of(change, reported) if reported else {}


def _cancelled(
    change: Change, owner: str, delivery: LeasedDelivery, outcome: Cancelled
) -> EndedJob:
    return EndedJob(
        delivery.job_id or peek_id(delivery.envelope),
        State.CANCELLED,
        change.now_ms,
        task_of(delivery.envelope),
        worker=owner,
        ready_ms=delivery.ready_ms,
        envelope=delivery.envelope,
        history=outcome.history or delivery.history,
        constraints=delivery.constraints,
        verdict=outcome.verdict or CANCELLED_VERDICT,
        inputs=delivery.inputs,
    )


def _storable(text: str) -> str:
    # A character that cannot be stored must not keep a job from ending.
    return text.encode("utf-8", "replace").decode()


def _end(change: Change, by_kind: dict[type, Settled], attached: dict[Receipt, Entry]) -> None:
    done, dead, cancelled = (by_kind[kind] for kind in _ENDS)
    if cancelled:
        cancelled = [(d, _kept(d, outcome)) for d, outcome in cancelled]
    _keep_verdicts(change, [*done, *dead, *cancelled])
    if attached:
        completion.let_go(
            change,
            [
                (attached[d.receipt], _ending(attached[d.receipt], outcome))
                for d, outcome in (*done, *dead, *cancelled)
                if d.receipt in attached
            ],
        )
    if gone := [*done, *cancelled]:
        entries.delete(change.connection, [delivery.receipt for delivery, _ in gone])
    if dead:
        rows = [(d.receipt, change.now_ms, _storable(o.reason), o.history) for d, o in dead]
        run_rows(change.connection, _MARK_DEAD, rows)
        if attached and group_source(change.queue):
            stopped_keys.stop(
                change, [attached[d.receipt] for d, _ in dead if d.receipt in attached]
            )


def _kept(delivery: LeasedDelivery, outcome: Cancelled) -> Cancelled:
    """The outcome with a verdict that is kept for a while, even if the worker gave none."""
    ttl_ms = outcome.ttl_ms or decode_constraints(delivery.constraints).ttl_ms or completion.KEPT_MS
    return Cancelled(outcome.verdict or CANCELLED_VERDICT, ttl_ms)


def _ending(entry: Entry, outcome: Done | Dead | Cancelled) -> JobEnding:
    if isinstance(outcome, Done):
        # Only children need the value.
        return ending_of(outcome.verdict) if entry.flags & CHILDREN else JobEnding(State.DONE)
    if isinstance(outcome, Dead):
        return JobEnding(State.DEAD)
    if isinstance(outcome, Cancelled):
        return JobEnding(State.CANCELLED)
    assert_never(outcome)


def _keep_verdicts(change: Change, ended: Settled) -> None:
    kept = [(d, outcome) for d, outcome in ended if outcome.verdict and outcome.ttl_ms > 0]
    if not kept:
        return
    rows = [
        (d.receipt, bounded_ms(change.now_ms + outcome.ttl_ms), outcome.verdict)
        for d, outcome in kept
    ]
    run_rows(change.connection, _KEEP, rows)
    # Two for each new one, so that expired results can only become fewer.
    pruning.drop_results(change.connection, change.now_ms, limit=2 * len(rows))
    change.notify("finished", _keys([d for d, _ in kept]))


def _keys(deliveries: Sequence[LeasedDelivery]) -> list[JobId] | None:
    job_ids = [delivery.job_id or peek_id(delivery.envelope) for delivery in deliveries]
    return job_ids if all(job_ids) else None
