"""Odd values for each kind of key on Redis, and each column on SQLite: what someone else's program,
a broken script or a hand at the console may leave there."""

from __future__ import annotations

import itertools
import sqlite3
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import msgspec
import redis

from headrace.core.job import ids
from headrace.core.job.envelope import encode_envelope
from headrace.store.redis.keys import KvKeys, QueueKeys, queues_key

pack = msgspec.msgpack.encode
QUEUE, TOPIC, GROUP = "mail", "orders", "billing"
BAD_TEXT = b"\xff\xfe odd"
CONSTRAINTS: Mapping[str, bytes] = {
    "a lane that is a list": pack({"k": [1]}),
    "a lane that is a number": pack({"k": 7}),
    "a lane that is empty": pack({"k": ""}),
    "a width that is text": pack({"k": "a", "w": "wide"}),
    "a width of zero": pack({"k": "a", "w": 0}),
    "a name that is a map": pack({"u": {"a": 1}}),
    "a time that is text": pack({"u": "a", "f": "long"}),
    "limits that are a number": pack({"r": 3}),
    "a limit without numbers": pack({"r": [["slow"]]}),
    "a limit of nothing": pack({"r": [["slow", 0, 0]]}),
    "a limit that is text": pack({"r": ["slow"]}),
    "a priority that is text": pack({"p": "high"}),
    "a priority beyond all": pack({"p": 10**9}),
    "a fraction": pack({"p": 1.5}),
    "an array": pack(["k", "a"]),
    "two values": pack({"k": "a"}) + pack({"k": "b"}),
    "half a value": pack({"k": "a"})[:-1],
    "no MessagePack": b"\xc1\xff",
    "text that is not UTF-8": b"\x81\xa1k\xa2\xff\xfe",
    "endless nesting": b"\x91" * 2000,
}


def envelope(key: bytes | None = None, *, task: str = "send", arguments: Any = ("odd",)) -> bytes:
    return encode_envelope(key or ids.new_id(), task, pack(arguments))


def colliding(count: int = 20_000) -> bytes:
    """Arguments that would take many seconds to decode: all keys have one and the same hash."""
    keys = itertools.islice(itertools.product((-1, -2), repeat=16), count)
    return b"\x91\xdf" + count.to_bytes(4, "big") + b"".join(pack(key) + b"\0" for key in keys)


COLLIDING = encode_envelope(ids.to_id("odd"), "send", colliding())


class OddRedis:
    """The keys of one queue, one topic and its group, to write odd values into."""

    def __init__(self, url: str, namespace: str) -> None:
        self.client = redis.Redis.from_url(url)
        self.namespace = namespace
        self.keys = QueueKeys(namespace, QUEUE)
        self.log = QueueKeys(namespace, f"@{TOPIC}")
        self.group = QueueKeys(namespace, f"{GROUP}@{TOPIC}")
        self.names = queues_key(namespace)

    def run(self, *command: Any) -> Any:
        return self.client.execute_command(*command)  # type: ignore[no-untyped-call]

    def constrain(self, constraints: bytes) -> None:
        self.run("XADD", self.keys.ready, "*", "j", envelope(), "t", constraints)

    def kv(self, space: str) -> str:
        return KvKeys(self.namespace, space).values

    def schedule(self, body: bytes, due_ms: float | None = None) -> None:
        """A job that is due, whose body is this."""
        job_id = ids.new_id()
        self.run("HSET", self.keys.parked, job_id, body)
        self.place(job_id, "s")
        self.run("ZADD", self.keys.scheduled, due_ms or time.time() * 1000 - 1000, job_id)

    def bury(self, *fields: bytes, index: bytes | None = b"d%b") -> None:
        """An entry among the dead, which the index knows if there is a key in it."""
        entry = self.run("XADD", self.keys.dead, "*", *fields)
        if index is not None and fields[0] == b"k":
            place = index % entry if b"%b" in index else index
            self.place(fields[1], place)

    def index(self, place: bytes) -> None:
        self.place(ids.new_id(), place)

    def place(self, job_id: bytes, place: bytes | str) -> Any:
        return self.run("HSET", self.keys.bucket_of(job_id), job_id, place)

    def minute(self) -> str:
        return f"{self.keys.minute}{int(time.time() // 60)}"


Plant = Callable[[OddRedis], Any]
_GOOD = ids.to_id("odd")

ON_REDIS: dict[str, Plant] = {
    **{f"constraints: {k}": partial(OddRedis.constrain, constraints=v)
        for k, v in CONSTRAINTS.items()},
    "constraints: of a scheduled job": lambda o: o.schedule(
        b"0,5,0:" + pack({"k": [1]}) + envelope()
    ),
    "entry: history": lambda o: o.run("XADD", o.keys.ready, "*", "j", envelope(), "h", b"\xc1"),
    "entry: inputs": lambda o: o.run("XADD", o.keys.ready, "*", "j", envelope(), "i", b"\xc1"),
    "entry: no job": lambda o: o.run("XADD", o.keys.ready, "*", BAD_TEXT, BAD_TEXT),
    "parked: no lengths": lambda o: o.schedule(b"garbage"),
    "parked: lengths beyond it": lambda o: o.schedule(b"999,999,999:" + envelope()),
    "parked: nothing": lambda o: o.schedule(b""),
    "scheduled: no body": lambda o: (
        o.run("ZADD", o.keys.scheduled, 1, b"=gone"), o.place(b"=gone", "s")
    ),
    "scheduled: in eternity": lambda o: o.schedule(b"0:" + envelope(), float("inf")),
    "scheduled: beyond all calendars": lambda o: o.schedule(b"0:" + envelope(), 1e18),
    "index: no place": lambda o: o.index(b"zzz"),
    "index: not UTF-8": lambda o: o.index(BAD_TEXT),
    "index: a broken entry": lambda o: o.index(b"12-x"),
    "index: a broken priority": lambda o: o.index(b"5/abc"),
    "index: dead nowhere": lambda o: o.index(b"dxyz"),
    "index: a lane without a body": lambda o: o.index(b"k"),
    "index: an empty place": lambda o: o.index(b""),
    "dead: reason not UTF-8": lambda o: o.bury(
        b"k", _GOOD, b"r", BAD_TEXT, b"j", envelope(_GOOD), b"h", b""
    ),
    "dead: history": lambda o: o.bury(
        b"k", _GOOD, b"r", b"odd", b"j", envelope(_GOOD), b"h", b"\xc1\xff"
    ),
    "dead: history of another age": lambda o: o.bury(
        b"k", _GOOD, b"r", b"odd", b"j", envelope(_GOOD), b"h",
        pack([[[1, 10**17, -(10**17), "w", "E", "text", ""]], 1, 0]),
    ),
    "dead: envelope": lambda o: o.bury(b"k", _GOOD, b"r", b"odd", b"j", BAD_TEXT, b"h", b""),
    "dead: constraints": lambda o: o.bury(
        b"k", _GOOD, b"r", b"odd", b"j", envelope(_GOOD), b"h", b"", b"t", pack({"k": [1]})
    ),
    "dead: no field of ours": lambda o: o.bury(BAD_TEXT, BAD_TEXT),
    "dead: a key alone": lambda o: o.bury(b"k", _GOOD),
    "dead: not in the index": lambda o: o.bury(
        b"k", _GOOD, b"r", b"odd", b"j", envelope(_GOOD), b"h", b"", index=None
    ),
    "dead: elsewhere in the index": lambda o: o.bury(
        b"k", _GOOD, b"r", b"odd", b"j", envelope(_GOOD), b"h", b"", index=b"s"
    ),
    "dead: an empty key": lambda o: o.bury(b"k", b"", b"r", b"odd", b"j", b"", b"h", b""),
    "dead: arguments that collide": lambda o: o.bury(
        b"k", _GOOD, b"r", b"odd", b"j", COLLIDING, b"h", b""
    ),
    "entry: arguments that collide": lambda o: o.run("XADD", o.keys.ready, "*", "j", COLLIDING),
    "epoch": lambda o: o.run("SET", o.keys.epoch, "many"),
    "epoch beyond all numbers": lambda o: o.run("SET", o.keys.epoch, "9" * 40),
    "facts": lambda o: o.run("SET", o.keys.facts, BAD_TEXT),
    "levels": lambda o: o.run("ZADD", o.keys.levels, 5, BAD_TEXT, 7, "-3", 8, "high", 0, "x"),
    "levels: labels of nobody": lambda o: o.run("ZADD", o.keys.levels, 0, "t0", 3, "p03", 0, "tp"),
    "minute": lambda o: o.run("HSET", o.minute(), "done send", "many", BAD_TEXT, BAD_TEXT),
    "minute: a histogram": lambda o: o.run("HSET", o.minute(), "run:odd send", "1", "wait: x", "2"),
    "events: not facts": lambda o: o.run("XADD", o.keys.events, "*", "n", "x", "f", b"\xc1"),
    "events: a block that lies": lambda o: o.run(
        "XADD", o.keys.events, "*", "n", "1", "f", b"\x91\x98\x05\xc4\x01x\xa4sent\xa0\0\0\0\xa0"
    ),
    "events: a fact of no kind": lambda o: o.run("XADD", o.keys.events, "*", "odd task", _GOOD),
    "events: not UTF-8": lambda o: o.run(
        *("XADD", o.keys.events, "*", BAD_TEXT + b" task", _GOOD),
    ),
    "events: other fields": lambda o: o.run("XADD", o.keys.events, "*", BAD_TEXT, BAD_TEXT),
    "reclaims": lambda o: o.run("HSET", o.keys.reclaims, "0", "odd", "at", "odd", "hold", "odd"),
    "paused": lambda o: o.run("SADD", o.keys.paused, BAD_TEXT),
    "lanes": lambda o: o.run("HSET", o.keys.lanes, "key:a", "odd"),
    "result": lambda o: o.run("SET", o.keys.result + "odd", b"\xc1"),
    "progress": lambda o: o.run("HSET", o.keys.progress, b"=x", b"\xc1"),
    "history: not a hash": lambda o: o.run("SET", o.keys.history, "odd"),
    "history: no numbers": lambda o: o.run("HSET", o.keys.history, "m", "odd"),
    "history: without end": lambda o: o.run("HSET", o.keys.history, "m", f"1 {10**14} 9 0 1 9999"),
    "history: a chunk that lies": lambda o: o.run(
        *("HSET", o.keys.history, "m", "1 1 1 0 1000 3600000", "d1", BAD_TEXT),
        *("i1", b"x" * 16 + b"d", "t1", f"{int(time.time() * 1000)}:1 "),
    ),
    "history: a chunk without marks": lambda o: o.run(
        "HSET", o.keys.history, "m", "1 1 1 0 1000 3600000", "d1", b"\0\0\0\1\xc1"
    ),
    "shelves": lambda o: o.run("SET", o.keys.shelves, "odd"),
    "once": lambda o: o.run("HSET", o.keys.once, b"=x", b"\xc1"),
    "children": lambda o: o.run("HSET", o.keys.children, b"=x", b"odd"),
    "flow_messages": lambda o: o.run("XADD", o.keys.flow_messages, "*", BAD_TEXT, BAD_TEXT),
    "flow_messages: no state": lambda o: o.run(
        *("XADD", o.keys.flow_messages, "*", "q", "x", "k", "a", "p", "b"),
        *("s", "odd", "v", "", "a", "1"),
    ),
    "queues: not UTF-8": lambda o: o.run("SADD", o.names, BAD_TEXT),
    "queues: refused": lambda o: o.run("SADD", o.names, "bad name", "", "a{b}", "x" * 300, "@"),
    "groups: not UTF-8": lambda o: o.run("HSET", o.log.groups, BAD_TEXT, "0 skip 1"),
    "groups: no record": lambda o: o.run("HSET", o.log.groups, "odd", "odd", "old", BAD_TEXT),
    "groups: odd names": lambda o: o.run("HSET", o.log.groups, "", "0 skip 1", "a@b", "0 skip 1"),
    "stopped": lambda o: o.run("HSET", o.group.stopped, "a", "odd", BAD_TEXT, BAD_TEXT),
    "positions": lambda o: o.run(
        "HSET", o.log.bucket_of(b"=x"), b"=x", "od-d", b"=y", BAD_TEXT
    ),
    "index: not a hash": lambda o: [
        o.run("SET", o.keys.jobs.encode() + name, "odd") for name in (b"\x80\0\0\0", b"=0000")
    ],
    "kv: schedules": lambda o: o.run("HSET", o.kv("schedules"), BAD_TEXT, b"x", "s", b"\xc1"),
    "kv: workers": lambda o: o.run("HSET", o.kv("workers"), BAD_TEXT, b"x", "w", b"\xc1"),
    "kv: supervisors": lambda o: o.run("HSET", o.kv("supervisors"), "w", pack([1])),
    "kv: actions": lambda o: o.run("HSET", o.kv("actions"), BAD_TEXT, b"x", "w", b"\xc1"),
    "kv: paused": lambda o: o.run("HSET", o.kv("paused"), BAD_TEXT, b"1", "bad name", b"1"),
}  # fmt: skip


_LADEN, _CONSTRAINED = 64, 2


class OddSqlite:
    """The rows of one queue, one topic and its group, to write odd values into."""

    def __init__(self, path: str, namespace: str) -> None:
        self.namespace = namespace
        self.connection = sqlite3.connect(path, isolation_level=None)
        self.queue = self._number(QUEUE)

    def _number(self, name: str) -> int:
        found = self.run("SELECT id FROM queues WHERE namespace=? AND name=?", self.namespace, name)
        return int(found[0][0])

    def run(self, sql: str, *values: Any) -> list[Any]:
        return self.connection.execute(sql, values).fetchall()

    def job(self, state: str, **cells: Any) -> Any:
        """A job in this state with odd cells."""
        job_id = ids.new_id()
        [(last,)] = self.run("UPDATE numbers SET last = last + 1 RETURNING last")
        now_ms = int(time.time() * 1000)
        row = {"id": last, "queue": self.queue, "job_id": job_id, "state": state, "position": last,
               "time_ms": now_ms - 5, "envelope": envelope(job_id), **cells}  # fmt: skip
        marks = ", ".join("?" * len(row))
        return self.run(f"INSERT INTO jobs ({', '.join(row)}) VALUES ({marks})", *row.values())

    def constrain(self, constraints: bytes) -> None:
        self.job("waiting", constraints=constraints, flags=_LADEN | _CONSTRAINED, lane="a")

    def put(self, space: str, name: Any, value: Any) -> Any:
        return self.run("INSERT INTO kv VALUES (?, ?, CAST(? AS TEXT), ?, NULL)",
                 self.namespace, space, name, value)  # fmt: skip


PlantRow = Callable[[OddSqlite], Any]
_TEXT = "CAST(x'fffe' AS TEXT)"

IN_SQLITE: dict[str, PlantRow] = {
    **{f"constraints: {k}": partial(OddSqlite.constrain, constraints=v)
        for k, v in CONSTRAINTS.items()},
    "constraints: of a scheduled job": lambda o: o.job(
        "scheduled", constraints=pack({"k": [1]}), flags=_LADEN
    ),
    "constraints: text": lambda o: o.job(
        "scheduled", constraints="odd", flags=_LADEN | _CONSTRAINED
    ),
    "history": lambda o: o.job("waiting", history=b"\xc1", flags=_LADEN),
    "history that is text": lambda o: o.job("waiting", history="odd", flags=_LADEN),
    "inputs that are a number": lambda o: o.job("waiting", inputs=3, flags=_LADEN),
    "envelope": lambda o: o.job("waiting", envelope=BAD_TEXT),
    "envelope that is text": lambda o: o.job("waiting", envelope="odd"),
    "envelope that is a number": lambda o: o.job("scheduled", envelope=3.5),
    "position that is text": lambda o: o.job("waiting", position="odd"),
    "flags that are text": lambda o: o.job("waiting", flags="odd"),
    "count that is text": lambda o: o.job("waiting", count="odd"),
    "ready_ms that is text": lambda o: o.job("waiting", ready_ms="odd"),
    "priority that is text": lambda o: o.job("waiting", priority="odd", flags=_LADEN),
    "job id that is text": lambda o: o.job("waiting", job_id="odd"),
    "state": lambda o: o.job("odd"),
    "dead: reason not UTF-8": lambda o: (
        o.job("dead", job_id=_GOOD), o.run(f"UPDATE jobs SET reason={_TEXT} WHERE job_id=?", _GOOD)
    ),
    "dead: reason that is bytes": lambda o: o.job("dead", reason=BAD_TEXT),
    "dead: history": lambda o: o.job("dead", history=b"\xc1"),
    "dead: history that is text": lambda o: o.job("dead", history="odd"),
    "dead: envelope": lambda o: o.job("dead", envelope=BAD_TEXT),
    "dead: envelope that is text": lambda o: o.job("dead", envelope="odd"),
    "dead: time that is text": lambda o: o.job("dead", time_ms="odd"),
    "dead: time beyond all calendars": lambda o: o.job("dead", time_ms=2**62),
    "dead: job id that is text": lambda o: o.job("dead", job_id="odd"),
    "dead: constraints": lambda o: o.job("dead", constraints=3),
    "dead: arguments that collide": lambda o: o.job("dead", job_id=_GOOD, envelope=COLLIDING),
    "envelope: arguments that collide": lambda o: o.job("waiting", envelope=COLLIDING),
    "results": lambda o: o.run(
        "INSERT INTO results (queue, job_id, expires_ms, verdict) VALUES (?, x'3d78', ?, x'c1')",
        o.queue, 2**62,
    ),
    "counters": lambda o: o.run(
        "INSERT INTO counters VALUES (?, ?, 'send', 'run:odd', 'many'), (?, 'odd', 'a', 'done', 1)",
        o.queue, int(time.time() // 60), o.queue,
    ),
    "facts": lambda o: o.run(
        "INSERT INTO facts (queue, first, count, at_ms, facts) VALUES (?, 900, 1, 'odd', x'c1')",
        o.queue,
    ),
    "history of ended jobs": lambda o: o.run(
        "INSERT INTO history (queue, shelf, count, total, most, keep_ms, last_ms, expires_ms,"
        " marks, data) VALUES (?, '', 'odd', 'odd', 'odd', 'odd', 'odd', 'odd', 'odd', 3.5),"
        " (?, x'ff', 1, 1, 1, 1, 1, 1, 1, x'c1')",
        o.queue, o.queue,
    ),
    "kv: schedules": lambda o: (
        o.put("schedules", BAD_TEXT, b"x"), o.put("schedules", "s", "odd")
    ),
    "kv: workers": lambda o: (
        o.put("workers", BAD_TEXT, b"x"), o.put("workers", "w", b"\xc1")
    ),
    "kv: actions": lambda o: (o.put("actions", BAD_TEXT, b"x"), o.put("actions", "w", 3)),
    "queues: not UTF-8": lambda o: o.run(
        f"INSERT INTO queues (namespace, name) VALUES (?, {_TEXT})", o.namespace
    ),
    "queues: refused": lambda o: o.run(
        "INSERT INTO queues (namespace, name) VALUES (?, 'bad name'), (?, ''), (?, 'a{b}')",
        o.namespace, o.namespace, o.namespace,
    ),
    "groups": lambda o: o.run("UPDATE topic_groups SET on_failure = x'ff', seen_ms = 'odd'"),
    "pauses": lambda o: o.run(
        f"INSERT INTO pauses VALUES (?, ?, {_TEXT})", o.namespace, QUEUE
    ),
}  # fmt: skip
