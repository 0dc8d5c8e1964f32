"""The store on Redis or Valkey: one server, one that sentinels watch, or a cluster."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal

from headrace.core.bounds import LOG_TTL
from headrace.core.flow.counts import FlowCounts
from headrace.core.job.capacity import Runner
from headrace.core.job.envelope import Malformed
from headrace.core.job.ids import JobId, to_text
from headrace.core.job.outcome import task_gate
from headrace.core.job.parcel import Child
from headrace.core.job.state import ENDED, State
from headrace.core.job.verdict import decode_verdict
from headrace.core.queue_names import is_log
from headrace.errors import ConfigError
from headrace.store.contract import DeadJobPage, Listener, ListenerHandle
from headrace.store.deaths import DeathListener, Deaths
from headrace.store.flow_values import Added, Addition, Cause, FlowPart, encode_cause
from headrace.store.oddities import readable
from headrace.store.queue_values import Rescheduling
from headrace.store.redis import encoding, facts, last_messages, moves, script_stubs
from headrace.store.redis.connection.link import Argument
from headrace.store.redis.connection.pubsub import encode_keys
from headrace.store.redis.consumer import RedisConsumer
from headrace.store.redis.keys import KvKeys
from headrace.store.redis.namespace import HAS_MESSAGES
from headrace.store.redis.topics import RedisTopics
from headrace.store.values import (
    Arrival,
    Control,
    IdempotencyKey,
    JobEnding,
    JobIdPage,
    LogPage,
    RecordedFact,
    Report,
)

_CURSORS = {
    State.WAITING: re.compile(r"(b?[tp]?\d*|@) \d+-\d+"),
    State.RUNNING: re.compile(r"(b?[tp]?\d*|@) \d+-\d+"),
    State.SCHEDULED: re.compile(r"\d+ ([0-9a-f]{2})*"),
    State.BLOCKED: re.compile(r"\d{1,19}"),
    State.DEAD: re.compile(r"\d+-\d+"),
}

_ADDED: dict[bytes, Added] = {b"0": "gone", b"1": "waits", b"2": "ended"}


def _flat(additions: Sequence[Addition]) -> list[bytes]:
    return [part for each in additions for part in (each.child, each.parent, each.added_by)]


class RedisStore(RedisTopics):
    """See `headrace.store.contract.Store`."""

    # Sending

    def give_up(self, idempotency: IdempotencyKey) -> None:
        self.server.abandoned.add(idempotency)

    async def follow(
        self, queue: str, parent: JobId, children: Sequence[Child]
    ) -> JobEnding | None:
        reply = await script_stubs.follow(
            self.links().send,
            self.keys(queue),
            parent=parent,
            children=b"".join(map(encoding.child_record, children)),
        )
        if not reply:
            return None
        state, verdict, cause = reply
        if state == b"dead":
            return JobEnding(State.DEAD, cause or encode_cause(Cause(queue, parent)))
        try:
            ended = decode_verdict(verdict)
        except Malformed:
            return JobEnding(State.DONE)
        return JobEnding(ended.state, ended.value)

    async def arrive(self, queue: str, arrivals: Sequence[Arrival]) -> list[Deaths]:
        records: list[Argument] = []
        for each in arrivals:
            ending = each.ending
            records += (each.child, each.parent, ending.state, ending.value)
            records += (int(each.runs_anyway), each.replays)
        reply = await script_stubs.arrive(
            self.links().send, self.keys(queue), events=self.events_kept(queue), arrivals=records
        )
        return encoding.deaths_in(queue, reply)

    async def extend_flow(self, queue: str, job_id: JobId, flow: JobId, target: str) -> list[Child]:
        (records,) = await script_stubs.extend_flow(
            self.links().send, self.keys(queue), job_id=job_id, flow=to_text(flow), target=target
        )
        return encoding.children_in(records)

    async def add_parents(self, queue: str, additions: Sequence[Addition]) -> list[Added]:
        answers = await script_stubs.add_parents(
            self.links().send, self.keys(queue), additions=_flat(additions)
        )
        return [_ADDED[answer] for answer in answers]

    async def confirm_parents(self, queue: str, additions: Sequence[Addition]) -> None:
        await script_stubs.confirm_parents(
            self.links().send, self.keys(queue), additions=_flat(additions)
        )

    # Asking

    async def flow_part(self, queue: str, flow: JobId, *, members: bool = False) -> FlowPart:
        counts, queues, live, failed = await script_stubs.flow_part(
            self.links().ask, self.keys(queue), flow=to_text(flow), members=members
        )
        names = tuple(readable(name) for name in queues)
        return FlowPart(FlowCounts(*counts), names, tuple(live), tuple(failed))

    async def browse(
        self,
        queue: str,
        state: State,
        cursor: str = "",
        limit: int = 100,
        *,
        runner: Runner | None = None,
    ) -> JobIdPage:
        if state in ENDED:
            ended = await self.history(queue, cursor, limit, state=state)
            return JobIdPage([job.job_id for job in ended.jobs], ended.cursor)
        if state is State.DEAD:
            page = await self.dead(queue, cursor, limit)
            return JobIdPage([job.job_id for job in page.jobs], page.cursor)
        _check_cursor(state, cursor)
        following, *found = await script_stubs.browse(
            self.links().ask,
            self.keys(queue),
            state=state,
            runner=runner or "",
            cursor=cursor,
            limit=limit,
        )
        return JobIdPage(found, following.decode())

    async def queues(self) -> list[str]:
        return [name for name in await self.names() if not is_log(name)]

    async def dead(self, queue: str, cursor: str = "", limit: int = 100) -> DeadJobPage:
        _check_cursor(State.DEAD, cursor)
        start, key = f"({cursor}" if cursor else "+", self.keys(queue).dead
        entries = await self.links().ask.call("XREVRANGE", key, start, "-", "COUNT", limit, key=key)
        if not entries:
            return DeadJobPage([], "")
        named = [encoding.id_of(fields) for _, fields in entries]
        places = await script_stubs.places(self.links().ask, self.keys(queue), job_ids=named)
        jobs = [
            encoding.dead_job(entry_id, fields, place)
            for (entry_id, fields), place in zip(entries, places, strict=True)
        ]
        following = entries[-1][0].decode() if len(entries) == limit else ""
        return DeadJobPage(jobs, following)

    async def log(self, queue: str, job_id: JobId, start: int = 0) -> LogPage:
        name = self.keys(queue).journal + job_id.decode("latin-1")
        raw = self.keys(queue).journal.encode() + job_id
        lines = await self.links().ask.call("LRANGE", raw, 0, -1, key=name)
        if not lines:
            return LogPage([], start)
        dropped = int(lines[0]) if lines[0].isdigit() else 0
        texts = [line.decode("utf-8", "replace") for line in lines[1:]]
        return LogPage(texts[max(0, start - dropped) :], dropped + len(texts))

    async def once_all(self, queue: str, job_id: JobId) -> dict[str, bytes]:
        pairs = await script_stubs.once_all(self.links().ask, self.keys(queue), job=job_id)
        return {readable(name): value for name, value in zip(pairs[::2], pairs[1::2], strict=True)}

    async def arrived(self, queue: str, pairs: Sequence[tuple[JobId, JobId]]) -> list[bool]:
        flat = [key for pair in pairs for key in pair]
        answers = await script_stubs.arrived(self.links().ask, self.keys(queue), pairs=flat)
        return [bool(answer) for answer in answers]

    async def events(
        self, queue: str, after: str = "", limit: int = 1000, wait: float = 0.0
    ) -> list[RecordedFact]:
        return await facts.read_events(self, self.keys(queue), after, limit, wait)

    async def control(self, queue: str) -> Control:
        keys, ask = self.keys(queue), self.links().ask
        names = await ask.call("SMEMBERS", keys.paused, key=keys.paused)
        paused = set(self.oddities.texts(keys.paused, names))
        cancelling = await ask.call("HKEYS", keys.cancelling, key=keys.cancelling)
        return Control("" in paused, frozenset(paused - {""}), tuple(cancelling))

    # Changing

    async def remove(
        self, name: str, *, force: bool = False, unused_for: float | None = None
    ) -> int | None:
        while True:
            held = await super().remove(name, force=force, unused_for=unused_for)
            if held != HAS_MESSAGES:
                return held
            await last_messages.deliver(self, name, self.arrive)

    async def cancel(
        self, queue: str, job_ids: Sequence[JobId], *, running: bool = True
    ) -> list[State | None]:
        answers = await script_stubs.cancel(
            self.links().send,
            self.keys(queue),
            events=self.events_kept(queue),
            running=running,
            job_ids=job_ids,
        )
        return [encoding.cancelled(answer) for answer in answers]

    async def reschedule(
        self, queue: str, job_ids: Sequence[JobId], change: Rescheduling
    ) -> list[bool]:
        at_ms = 0 if change.delay_ms == 0 else change.at_ms
        when = "" if at_ms is None else f"@{at_ms}"
        moved = await script_stubs.reschedule(
            self.links().send,
            self.keys(queue),
            events=self.events_kept(queue),
            when=f"+{change.delay_ms}" if change.delay_ms else when,
            priority="" if change.priority is None else str(change.priority),
            target=change.queue,
            job_ids=job_ids,
        )
        if change.queue:
            await moves.deliver(self, queue)
        return [bool(each) for each in moved]

    async def pause(self, queue: str, task: str = "") -> None:
        await self._set_paused(queue, task, on=True)

    async def resume(self, queue: str, task: str = "") -> None:
        await self._set_paused(queue, task, on=False)

    async def _set_paused(self, queue: str, task: str, *, on: bool) -> None:
        await script_stubs.pause(
            self.links().send,
            self.keys(queue),
            events=self.events_kept(queue),
            task=task,
            gate=task_gate(task),
            on=on,
        )

    async def replay(
        self, queue: str, job_ids: Sequence[JobId], envelopes: Sequence[bytes] = (), by: str = ""
    ) -> list[bool]:
        pairs = zip(job_ids, envelopes or [b""] * len(job_ids), strict=True)
        replayed = await script_stubs.replay(
            self.links().send,
            self.keys(queue),
            events=self.events_kept(queue),
            by=by,
            jobs=[part for pair in pairs for part in pair],
        )
        return [bool(done) for done in replayed]

    async def purge(self, queue: str, job_ids: Sequence[JobId]) -> list[bool]:
        purged = await script_stubs.purge(
            self.links().send, self.keys(queue), events=self.events_kept(queue), job_ids=job_ids
        )
        return [bool(done) for done in purged]

    async def report(self, queue: str, reports: Sequence[Report]) -> None:
        jobs: list[Argument] = []
        for each in reports:
            jobs += (each.job_id, each.progress, len(each.lines), *each.lines)
        await script_stubs.report(
            self.links().ask,
            self.keys(queue),
            lines_most=self.history_rules.queues.of(queue).log,
            log_ttl=LOG_TTL,
            reported=encode_keys([each.job_id for each in reports]),
            jobs=jobs,
        )

    async def once_set(self, queue: str, job_id: JobId, name: str, value: bytes) -> None:
        await script_stubs.once_set(
            self.links().ask, self.keys(queue), job=job_id, name=name, value=value
        )

    async def kv_set(
        self,
        space: str,
        name: str,
        value: bytes | None,
        *,
        ttl: float | None = None,
        expected: bytes | Literal["anything"] | None = "anything",
    ) -> bool:
        compare = "absent" if expected is None else "equal"
        done = await script_stubs.kv_set(
            self.links().send,
            KvKeys(self.namespace, space),
            name=name,
            compare="" if expected == "anything" else compare,
            expected=expected if isinstance(expected, bytes) else b"",
            remove=value is None,
            value=value or b"",
            ttl="" if ttl is None or value is None else str(int(ttl * 1000)),
        )
        return bool(done)

    async def kv_all(self, space: str) -> dict[str, bytes]:
        keys = KvKeys(self.namespace, space)
        pairs = await script_stubs.kv_all(self.links().ask, keys)
        values = dict(zip(pairs[::2], pairs[1::2], strict=True))
        return {name: values[name.encode()] for name in self.oddities.texts(keys.values, values)}

    async def record(self, space: str, name: str, value: bytes, *, keep: float, most: int) -> None:
        await script_stubs.record(
            self.links().send,
            KvKeys(self.namespace, space),
            name=name,
            value=value,
            keep_ms=int(keep * 1000),
            most=most,
        )

    async def records(
        self, space: str, before: str, limit: int, *, keep: float
    ) -> list[tuple[str, bytes]]:
        pairs = await script_stubs.records(
            self.links().ask,
            KvKeys(self.namespace, space),
            before=before,
            limit=limit,
            keep_ms=int(keep * 1000),
        )
        found = dict(zip(pairs[::2], pairs[1::2], strict=True))
        where = KvKeys(self.namespace, space).order
        return [(name, found[name.encode()]) for name in self.oddities.texts(where, found)]

    # Listening

    async def on_finished(self, queue: str, listener: Listener) -> ListenerHandle:
        return await self.links().pubsub.add(self.keys(queue).finished_channel, listener)

    async def on_reports(self, queue: str, listener: Listener) -> ListenerHandle:
        return await self.links().pubsub.add(self.keys(queue).reports_channel, listener)

    async def on_kv(self, space: str, listener: Listener) -> ListenerHandle:
        channel = KvKeys(self.namespace, space).changed_channel
        return await self.links().pubsub.add(channel, listener)

    def consumer(
        self,
        name: str,
        queues: Mapping[str, int] | Sequence[str],
        lease: float,
        *,
        strict: bool = False,
        on_deaths: DeathListener | None = None,
        concurrency: Mapping[str, int] | None = None,
    ) -> RedisConsumer:
        weights = queues if isinstance(queues, Mapping) else dict.fromkeys(queues, 1)
        return RedisConsumer(
            self, name, weights, lease, strict=strict, on_deaths=on_deaths, bounds=concurrency or {}
        )


def _check_cursor(state: State, cursor: str) -> None:
    if cursor and not _CURSORS[state].fullmatch(cursor):
        raise ConfigError(f"{cursor!r} is not a cursor of {state} jobs: give that of a page")
