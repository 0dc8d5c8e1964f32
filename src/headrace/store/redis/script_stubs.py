"""The Lua scripts as functions. `tools/lua_stubs.py` writes them from the headers."""

# fmt: off
from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Any

from headrace.store.redis.connection.link import Argument, Link
from headrace.store.redis.keys import DRAW, RETURNED, KvKeys, QueueKeys
from headrace.store.redis.script import Script, groups_of
from headrace.store.values import IdempotencyKey

_ack_flow_messages = Script("flows/ack_flow_messages")
_add_parents = Script("flows/add_parents")
_append = Script("append")
_append_constrained = Script("append_constrained")
_arrive = Script("flows/arrive")
_arrived = Script("flows/arrived")
_begin = Script("begin")
_browse = Script("browse")
_cancel = Script("cancel")
_confirm_parents = Script("flows/confirm_parents")
_create_groups = Script("create_groups")
_disband = Script("topics/disband")
_draw = Script("topics/draw")
_ended_times = Script("ended_times")
_extend_flow = Script("flows/extend_flow")
_fetch = Script("fetch")
_flow_messages = Script("flows/flow_messages")
_flow_part = Script("flows/flow_part")
_follow = Script("flows/follow")
_forget = Script("forget")
_forget_ended = Script("forget_ended")
_free = Script("topics/free")
_get = Script("get")
_groups = Script("topics/groups")
_history = Script("history")
_join = Script("topics/join")
_kv_all = Script("kv_all")
_kv_set = Script("kv_set")
_leave = Script("leave")
_logs = Script("topics/logs")
_once_all = Script("once_all")
_once_set = Script("once_set")
_pause = Script("pause")
_places = Script("places")
_position = Script("topics/position")
_promote = Script("promote")
_publish = Script("topics/publish")
_purge = Script("purge")
_reclaim = Script("reclaim")
_record = Script("record")
_record_starts = Script("record_starts")
_records = Script("records")
_remove = Script("remove")
_renew = Script("renew")
_replay = Script("replay")
_report = Script("report")
_reschedule = Script("reschedule")
_rewind = Script("topics/rewind")
_settle = Script("settle")
_stats = Script("stats")
_stopped = Script("topics/stopped")
_survey = Script("survey")
_trim = Script("topics/trim")


def ack_flow_messages(
    link: Link, keys: QueueKeys, *, entries: Sequence[str],
    idempotency: IdempotencyKey | None = None,
) -> Awaitable[int]:
    return link.run(
        _ack_flow_messages, [keys.flow_messages, keys.flow_relay, keys.sessions], [*entries],
        idempotency,
    )


def add_parents(
    link: Link, keys: QueueKeys, *, additions: Sequence[bytes],
    idempotency: IdempotencyKey | None = None,
) -> Awaitable[list[bytes]]:
    return link.run(
        _add_parents, [keys.jobs, keys.flow, keys.sessions], [*additions], idempotency,
    )


def append(
    link: Link, keys: QueueKeys, *, events: int, may_exist: bool, facts: bytes, counts: bytes,
    jobs: Sequence[Argument], idempotency: IdempotencyKey | None = None,
) -> Awaitable[list[int]]:
    return link.run(
        _append, [keys.ready, keys.level, keys.levels, keys.jobs, keys.scheduled, keys.parked,
        keys.dead, keys.result, keys.due_channel, keys.control_channel, keys.events, keys.facts,
        keys.minute, keys.sessions], [events, keys.group, int(may_exist), facts, counts, *jobs],
        idempotency,
    )


def append_constrained(
    link: Link, keys: QueueKeys, *, events: int, may_exist: bool, facts: bytes, counts: bytes,
    most: int, drops: bool, most_per_key: int, begun: str, jobs: Sequence[Argument],
    idempotency: IdempotencyKey | None = None,
) -> Awaitable[list[Any]]:
    return link.run(
        _append_constrained, keys.all, [events, keys.queue, int(may_exist), facts, counts, most,
        int(drops), most_per_key, begun, *jobs, keys.history_rules.encoded(keys.queue)],
        idempotency,
    )


def arrive(
    link: Link, keys: QueueKeys, *, events: int, arrivals: Sequence[Argument],
    idempotency: IdempotencyKey | None = None,
) -> Awaitable[list[Any]]:
    return link.run(
        _arrive, keys.all, [events, keys.queue, *arrivals, keys.history_rules.encoded(keys.queue)],
        idempotency,
    )


def arrived(
    link: Link, keys: QueueKeys, *, pairs: Sequence[bytes],
) -> Awaitable[list[int]]:
    return link.run(
        _arrived, [keys.flow], [*pairs],
    )


def begin(
    link: Link, keys: QueueKeys, *, events: int, jobs: Sequence[Argument],
    idempotency: IdempotencyKey | None = None,
) -> Awaitable[list[bytes]]:
    return link.run(
        _begin, keys.all, [events, keys.queue, *jobs, keys.history_rules.encoded(keys.queue)],
        idempotency,
    )


def browse(
    link: Link, keys: QueueKeys, *, state: str, runner: str, cursor: str, limit: int,
) -> Awaitable[list[bytes]]:
    return link.run(
        _browse, [keys.ready, keys.level, keys.levels, keys.jobs, keys.parked, keys.scheduled,
        keys.log], [keys.group, RETURNED, state, runner, cursor, limit],
    )


def cancel(
    link: Link, keys: QueueKeys, *, events: int, running: bool, job_ids: Sequence[bytes],
    idempotency: IdempotencyKey | None = None,
) -> Awaitable[list[bytes]]:
    return link.run(
        _cancel, keys.all, [events, keys.queue, int(running), *job_ids,
        keys.history_rules.encoded(keys.queue)], idempotency,
    )


def confirm_parents(
    link: Link, keys: QueueKeys, *, additions: Sequence[bytes],
    idempotency: IdempotencyKey | None = None,
) -> Awaitable[int]:
    return link.run(
        _confirm_parents, [keys.flow, keys.sessions], [*additions], idempotency,
    )


def create_groups(
    link: Link, keys: QueueKeys, *, member: str,
) -> Awaitable[tuple[int, list[bytes], list[bytes], int, int, *tuple[bytes, ...]]]:
    return link.run(
        _create_groups, [keys.ready, keys.level, keys.levels, keys.epoch, keys.paused, keys.log,
        keys.groups, keys.counted, keys.disbanded, keys.facts], [keys.group, RETURNED, member],
    )


def disband(
    link: Link, keys: QueueKeys, *, events: int, expiry: int,
    idempotency: IdempotencyKey | None = None,
) -> Awaitable[int]:
    return link.run(
        _disband, keys.all, [events, keys.queue, expiry, keys.history_rules.encoded(keys.queue)],
        idempotency,
    )


def draw(
    link: Link, keys: QueueKeys, *, events: int, limit: int,
    idempotency: IdempotencyKey | None = None,
) -> Awaitable[tuple[bytes, int, list[Any]]]:
    return link.run(
        _draw, keys.all, [events, keys.queue, limit, DRAW, keys.history_rules.encoded(keys.queue)],
        idempotency,
    )


def ended_times(
    link: Link, keys: QueueKeys, *, job_ids: Sequence[bytes],
) -> Awaitable[list[int]]:
    return link.run(
        _ended_times, [keys.jobs, keys.history, keys.shelves], [*job_ids],
    )


def extend_flow(
    link: Link, keys: QueueKeys, *, job_id: bytes, flow: str, target: str,
    idempotency: IdempotencyKey | None = None,
) -> Awaitable[list[bytes]]:
    return link.run(
        _extend_flow, [keys.children, keys.flow_jobs, keys.flow_counts, keys.sessions], [keys.queue,
        job_id, flow, target], idempotency,
    )


def fetch(
    link: Link, keys: QueueKeys, *, consumer: str, limit: int, loop: int, thread: int, process: int,
    turn: int, returns: bool, crash_limit: int, fresh: bool, most: int,
) -> Awaitable[tuple[list[Any], list[int], list[bytes], list[bytes]]]:
    return link.run(
        _fetch, [keys.ready, keys.level, keys.levels, keys.log, keys.reclaims], [keys.group,
        RETURNED, consumer, limit, loop, thread, process, turn, int(returns), crash_limit,
        int(fresh), most],
    )


def flow_messages(
    link: Link, keys: QueueKeys, *, consumer: str, limit: int, ticket: int,
) -> Awaitable[list[Any]]:
    return link.run(
        _flow_messages, [keys.flow_messages, keys.flow_relay], [consumer, limit, ticket],
    )


def flow_part(
    link: Link, keys: QueueKeys, *, flow: str, members: bool,
) -> Awaitable[list[Any]]:
    return link.run(
        _flow_part, [keys.jobs, keys.ready, keys.level, keys.flow, keys.flow_jobs,
        keys.flow_counts], [flow, keys.group, RETURNED, int(members)],
    )


def follow(
    link: Link, keys: QueueKeys, *, parent: bytes, children: bytes,
    idempotency: IdempotencyKey | None = None,
) -> Awaitable[list[bytes]]:
    return link.run(
        _follow, [keys.jobs, keys.children, keys.flow, keys.result, keys.sessions], [parent,
        children], idempotency,
    )


def forget(
    link: Link, keys: QueueKeys, *, last: bool, names: Sequence[bytes],
    idempotency: IdempotencyKey | None = None,
) -> Awaitable[int]:
    return link.run(
        _forget, [keys.ready, keys.level, keys.levels, keys.parked, keys.dead, keys.scheduled,
        keys.sessions], [int(last), *names], idempotency,
    )


def forget_ended(
    link: Link, keys: QueueKeys, *, shelf: bytes, chunk: bytes, digest: bytes, marks: bytes,
    data: bytes, job_ids: Sequence[bytes], idempotency: IdempotencyKey | None = None,
) -> Awaitable[list[int]]:
    return link.run(
        _forget_ended, [keys.history, keys.result, keys.journal, keys.jobs, keys.sessions], [shelf,
        chunk, digest, marks, data, *job_ids], idempotency,
    )


def free(
    link: Link, keys: QueueKeys, *, events: int, lane: str,
    idempotency: IdempotencyKey | None = None,
) -> Awaitable[int]:
    return link.run(
        _free, keys.all, [events, keys.queue, lane, keys.history_rules.encoded(keys.queue)],
        idempotency,
    )


def get(
    link: Link, keys: Sequence[QueueKeys], *, bodies: bool, inputs_most: int,
    job_ids: Sequence[bytes],
) -> Awaitable[list[list[Any]]]:
    return link.run(
        _get, _get.names(keys), [groups_of(keys), RETURNED, int(bodies), inputs_most, *job_ids],
    )


def groups(
    link: Link, keys: Sequence[QueueKeys],
) -> Awaitable[list[list[int]]]:
    return link.run(
        _groups, _groups.names(keys), [groups_of(keys)],
    )


def history(
    link: Link, keys: QueueKeys, *, limit: int, bytes_most: int, going_on: bool,
    positions: Sequence[Argument],
) -> Awaitable[list[Any]]:
    return link.run(
        _history, [keys.history, keys.shelves], [limit, bytes_most, int(going_on), *positions],
    )


def join(
    link: Link, keys: QueueKeys, *, member: str, again: bool, kind: str, value: Argument,
    idempotency: IdempotencyKey | None = None,
) -> Awaitable[int]:
    return link.run(
        _join, [keys.log, keys.log_jobs, keys.groups, keys.counted, keys.disbanded, keys.sessions],
        [keys.group, member, int(again), kind, value], idempotency,
    )


def kv_all(
    link: Link, keys: KvKeys,
) -> Awaitable[list[bytes]]:
    return link.run(
        _kv_all, [keys.values, keys.expiry], [],
    )


def kv_set(
    link: Link, keys: KvKeys, *, name: str, compare: str, expected: bytes, remove: bool,
    value: bytes, ttl: str, idempotency: IdempotencyKey | None = None,
) -> Awaitable[int]:
    return link.run(
        _kv_set, [keys.values, keys.expiry, keys.changed_channel, keys.sessions], [name, compare,
        expected, int(remove), value, ttl], idempotency,
    )


def leave(
    link: Link, keys: QueueKeys, *, consumer: str, idempotency: IdempotencyKey | None = None,
) -> Awaitable[int]:
    return link.run(
        _leave, [keys.ready, keys.level, keys.levels, keys.log, keys.promoter, keys.flow_relay,
        keys.due_channel, keys.control_channel, keys.sessions], [keys.group, RETURNED, consumer],
        idempotency,
    )


def logs(
    link: Link, keys: Sequence[QueueKeys],
) -> Awaitable[list[list[Any]]]:
    return link.run(
        _logs, _logs.names(keys), [groups_of(keys)],
    )


def once_all(
    link: Link, keys: QueueKeys, *, job: bytes,
) -> Awaitable[list[bytes]]:
    return link.run(
        _once_all, [keys.once], [job],
    )


def once_set(
    link: Link, keys: QueueKeys, *, job: bytes, name: str, value: bytes,
    idempotency: IdempotencyKey | None = None,
) -> Awaitable[int]:
    return link.run(
        _once_set, [keys.jobs, keys.once, keys.log, keys.log_jobs, keys.sessions], [keys.group, job,
        name, value], idempotency,
    )


def pause(
    link: Link, keys: QueueKeys, *, events: int, task: str, gate: str, on: bool,
    idempotency: IdempotencyKey | None = None,
) -> Awaitable[int]:
    return link.run(
        _pause, keys.all, [events, keys.queue, task, gate, int(on),
        keys.history_rules.encoded(keys.queue)], idempotency,
    )


def places(
    link: Link, keys: QueueKeys, *, job_ids: Sequence[bytes],
) -> Awaitable[list[bytes | None]]:
    return link.run(
        _places, [keys.jobs], [*job_ids],
    )


def position(
    link: Link, keys: QueueKeys, *, kind: str, value: Argument,
) -> Awaitable[bytes]:
    return link.run(
        _position, [keys.ready, keys.jobs], [kind, value],
    )


def promote(
    link: Link, keys: QueueKeys, *, events: int, consumer: str, limit: int, ticket: int,
    idempotency: IdempotencyKey | None = None,
) -> Awaitable[tuple[int, int, list[Any]]]:
    return link.run(
        _promote, keys.all, [events, keys.queue, consumer, limit, ticket,
        keys.history_rules.encoded(keys.queue)], idempotency,
    )


def publish(
    link: Link, keys: QueueKeys, *, events: int, may_exist: bool, most: int, drops: int, gone: int,
    each: int, parcels: Sequence[Argument], idempotency: IdempotencyKey | None = None,
) -> Awaitable[list[int]]:
    return link.run(
        _publish, [keys.ready, keys.jobs, keys.scheduled, keys.parked, keys.groups,
        keys.due_channel, keys.events, keys.facts, keys.minute, keys.sessions], [events, keys.queue,
        int(may_exist), most, drops, gone, each, *parcels], idempotency,
    )


def purge(
    link: Link, keys: QueueKeys, *, events: int, job_ids: Sequence[bytes],
    idempotency: IdempotencyKey | None = None,
) -> Awaitable[list[int]]:
    return link.run(
        _purge, keys.all, [events, keys.queue, *job_ids, keys.history_rules.encoded(keys.queue)],
        idempotency,
    )


def reclaim(
    link: Link, keys: QueueKeys, *, events: int, consumer: str, limit: int, loop: int, thread: int,
    process: int, last_chance: bool, lease: int, interval: int, crash_limit: int, going_on: bool,
    most: int, idempotency: IdempotencyKey | None = None,
) -> Awaitable[tuple[list[Any], list[int], list[bytes], int, int]]:
    return link.run(
        _reclaim, keys.all, [events, keys.queue, consumer, limit, loop, thread, process,
        int(last_chance), lease, interval, crash_limit, int(going_on), most,
        keys.history_rules.encoded(keys.queue)], idempotency,
    )


def record(
    link: Link, keys: KvKeys, *, name: str, value: bytes, keep_ms: int, most: int,
    idempotency: IdempotencyKey | None = None,
) -> Awaitable[int]:
    return link.run(
        _record, [keys.values, keys.order, keys.sessions], [name, value, keep_ms, most],
        idempotency,
    )


def record_starts(
    link: Link, keys: QueueKeys, *, events: int, consumer: str, starts: Sequence[Argument],
    idempotency: IdempotencyKey | None = None,
) -> Awaitable[int]:
    return link.run(
        _record_starts, [keys.ready, keys.level, keys.log, keys.events, keys.facts, keys.minute,
        keys.sessions], [events, keys.group, consumer, *starts], idempotency,
    )


def records(
    link: Link, keys: KvKeys, *, before: str, limit: int, keep_ms: int,
) -> Awaitable[list[bytes]]:
    return link.run(
        _records, [keys.values, keys.order], [before, limit, keep_ms],
    )


def remove(
    link: Link, keys: QueueKeys, *, events: int, force: bool, unused_ms: int,
    idempotency: IdempotencyKey | None = None,
) -> Awaitable[int]:
    return link.run(
        _remove, keys.all, [events, keys.queue, int(force), unused_ms,
        keys.history_rules.encoded(keys.queue)], idempotency,
    )


def renew(
    link: Link, keys: QueueKeys, *, consumer: str, deliveries: Sequence[Argument],
) -> Awaitable[list[bytes]]:
    return link.run(
        _renew, [keys.ready, keys.level, keys.log], [keys.group, consumer, *deliveries],
    )


def replay(
    link: Link, keys: QueueKeys, *, events: int, by: str, jobs: Sequence[Argument],
    idempotency: IdempotencyKey | None = None,
) -> Awaitable[list[int]]:
    return link.run(
        _replay, keys.all, [events, keys.queue, by, *jobs, keys.history_rules.encoded(keys.queue)],
        idempotency,
    )


def report(
    link: Link, keys: QueueKeys, *, lines_most: int, log_ttl: int, reported: bytes,
    jobs: Sequence[Argument], idempotency: IdempotencyKey | None = None,
) -> Awaitable[int]:
    return link.run(
        _report, [keys.jobs, keys.progress, keys.journal, keys.reports_channel, keys.log,
        keys.log_jobs, keys.sessions], [keys.group, lines_most, log_ttl, reported, *jobs],
        idempotency,
    )


def reschedule(
    link: Link, keys: QueueKeys, *, events: int, when: str, priority: str, target: str,
    job_ids: Sequence[bytes], idempotency: IdempotencyKey | None = None,
) -> Awaitable[list[int]]:
    return link.run(
        _reschedule, keys.all, [events, keys.queue, when, priority, target, *job_ids,
        keys.history_rules.encoded(keys.queue)], idempotency,
    )


def rewind(
    link: Link, keys: QueueKeys, *, events: int, kind: str, value: Argument,
    idempotency: IdempotencyKey | None = None,
) -> Awaitable[int]:
    return link.run(
        _rewind, keys.all, [events, keys.queue, kind, value,
        keys.history_rules.encoded(keys.queue)], idempotency,
    )


def settle(
    link: Link, keys: QueueKeys, *, events: int, consumer: str, epoch: int, checked: bool,
    finished: bytes, facts_count: int, facts: bytes, counts: bytes, done: int, kept: int,
    labels: bytes, constrained: bool, moved: int, from_log: int, shelves: int, bounded: bool,
    blocks: Sequence[Argument], idempotency: IdempotencyKey | None = None,
) -> Awaitable[list[Any]]:
    return link.run(
        _settle, keys.all, [events, keys.queue, consumer, epoch, int(checked), finished,
        facts_count, facts, counts, done, kept, labels, int(constrained), moved, from_log, shelves,
        int(bounded), *blocks, keys.history_rules.encoded(keys.queue)], idempotency,
    )


def stats(
    link: Link, keys: Sequence[QueueKeys], *, since: int, most: int,
) -> Awaitable[list[list[list[bytes]]]]:
    return link.run(
        _stats, _stats.names(keys), [groups_of(keys), since, most],
    )


def stopped(
    link: Link, keys: QueueKeys,
) -> Awaitable[list[Any]]:
    return link.run(
        _stopped, [keys.stopped, keys.lane], [],
    )


def survey(
    link: Link, keys: Sequence[QueueKeys],
) -> Awaitable[list[list[Any]]]:
    return link.run(
        _survey, _survey.names(keys), [groups_of(keys), RETURNED],
    )


def trim(
    link: Link, keys: QueueKeys, *, retention: int, gone: int, most: int, ticket: int,
    idempotency: IdempotencyKey | None = None,
) -> Awaitable[list[Any]]:
    return link.run(
        _trim, [keys.ready, keys.jobs, keys.groups, keys.trimmer, keys.sessions], [retention, gone,
        most, ticket], idempotency,
    )
