"""A producer as someone would write it in another language, from docs/wire.md alone: MessagePack by
hand, a plain Redis client, plain SQLite. It must not import the package."""

from __future__ import annotations

import hashlib
import re
import sqlite3
import struct
import time
import zlib
from pathlib import Path
from typing import Any

import redis

PAGE = (Path(__file__).parents[2] / "docs" / "wire.md").read_text()
(SCRIPT,) = re.findall(r"```lua\n(.*?)```", PAGE, re.DOTALL)
ADD_JOB, ADD_EVENT = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)


def pack(value: object) -> bytes:
    """A value as MessagePack, in its shortest form."""
    match value:
        case None:
            return b"\xc0"
        case bool():
            return b"\xc3" if value else b"\xc2"
        case int():
            return pack_int(value)
        case float():
            return b"\xcb" + struct.pack(">d", value)
        case bytes():
            return length(len(value), None, b"\xc4", b"\xc5", b"\xc6") + value
        case str():
            data = value.encode()
            return length(len(data), (0xA0, 32), b"\xd9", b"\xda", b"\xdb") + data
        case list():
            head = length(len(value), (0x90, 16), None, b"\xdc", b"\xdd")
            return head + b"".join(map(pack, value))
        case dict():
            head = length(len(value), (0x80, 16), None, b"\xde", b"\xdf")
            return head + b"".join(pack(key) + pack(item) for key, item in value.items())
    raise TypeError(type(value))


def pack_int(value: int) -> bytes:
    if -32 <= value < 128:
        return struct.pack(">b", value) if value < 0 else bytes([value])
    forms = ((0xCC, ">B", 0, 1 << 8), (0xCD, ">H", 0, 1 << 16), (0xCE, ">I", 0, 1 << 32),
             (0xCF, ">Q", 0, 1 << 64))  # fmt: skip
    if value < 0:
        forms = ((0xD0, ">b", -(1 << 7), 0), (0xD1, ">h", -(1 << 15), 0),
                 (0xD2, ">i", -(1 << 31), 0), (0xD3, ">q", -(1 << 63), 0))  # fmt: skip
    mark, form = next((mark, form) for mark, form, low, high in forms if low <= value < high)
    return bytes([mark]) + struct.pack(form, value)


def length(
    size: int, short: tuple[int, int] | None, one: bytes | None, two: bytes, four: bytes
) -> bytes:
    if short is not None and size < short[1]:
        return bytes([short[0] + size])
    if one is not None and size < 1 << 8:
        return one + struct.pack(">B", size)
    return two + struct.pack(">H", size) if size < 1 << 16 else four + struct.pack(">I", size)


def id_bytes(text: str) -> bytes:
    """Of a UUID of version 7 its bytes, of another text `=` and its bytes."""
    if re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", text):
        return bytes.fromhex(text.replace("-", ""))
    return b"=" + text.encode()


def envelope(id: str, task: str, payload: bytes, overrides: dict[str, object]) -> bytes:
    fields: list[object] = [1, id_bytes(id), task, payload]
    return pack([*fields, overrides] if overrides else fields)


def shard_of(key: str, shards: int) -> int:
    return zlib.crc32(key.encode()) % shards


def log_of(topic: str, shard: int) -> str:
    return f"@{topic}#{shard}" if shard else f"@{topic}"


class RedisKeys:
    def __init__(self, namespace: str, queue: str, job_id: bytes) -> None:
        space = namespace.replace("%", "%25").replace(":", "%3A")
        base = b"{%s:%s}" % (space.encode(), queue.encode())
        self.queues = b"{%s}:queues" % space.encode()
        self.ready = base + b":ready"
        self.index = base + b":jobs:" + bucket_of(job_id)
        self.result = base + b":result:" + job_id


def bucket_of(job_id: bytes) -> bytes:
    if not job_id.startswith(b"="):
        return job_id[8:12]
    return b"=" + hashlib.sha1(job_id[:-1], usedforsecurity=False).hexdigest()[:4].encode()


class RedisProducer:
    def __init__(self, url: str, namespace: str) -> None:
        self._client: Any = redis.Redis.from_url(url)
        self._namespace = namespace

    def send(self, queue: str, id: str, data: bytes, key: str = "") -> bool:
        keys = RedisKeys(self._namespace, queue, id_bytes(id))
        self._client.execute_command("SADD", keys.queues, queue)
        constraints = pack({"k": key}) if key else b""
        names = (keys.ready, keys.index, keys.result)
        given = (id_bytes(id), data, constraints)
        return bool(self._client.execute_command("EVAL", SCRIPT, 3, *names, *given))

    def send_plainly(self, queue: str, id: str, data: bytes) -> None:
        keys = RedisKeys(self._namespace, queue, id_bytes(id))
        self._client.execute_command("XADD", keys.ready, "*", "j", data)

    def result(self, queue: str, id: str) -> bytes | None:
        keys = RedisKeys(self._namespace, queue, id_bytes(id))
        found = self._client.execute_command("GET", keys.result)
        return None if found is None else bytes(found)

    def close(self) -> None:
        self._client.close()


class SqliteProducer:
    def __init__(self, path: str, namespace: str) -> None:
        self._connection = sqlite3.connect(
            path, isolation_level=None, timeout=30, check_same_thread=False
        )
        self._namespace = namespace

    def send(self, queue: str, id: str, data: bytes, key: str = "") -> bool:
        given = {
            "namespace": self._namespace, "queue": queue, "job_id": id_bytes(id),
            "envelope": data, "now_ms": int(time.time() * 1000), "key": key,
        }  # fmt: skip
        self._connection.execute("BEGIN IMMEDIATE")
        added = 0
        for statement in (ADD_EVENT if queue.startswith("@") else ADD_JOB).split(";\n"):
            if statement.strip():
                done = self._connection.execute(statement, given).rowcount
                added = done if "envelope" in statement else added
        self._connection.execute("COMMIT")
        return bool(added)

    def result(self, queue: str, id: str) -> bytes | None:
        found = self._connection.execute(
            "SELECT verdict FROM results JOIN queues ON queues.id = results.queue "
            "WHERE namespace = ? AND name = ? AND job_id = ?",
            (self._namespace, queue, id_bytes(id)),
        ).fetchone()
        return None if found is None else bytes(found[0])

    def close(self) -> None:
        self._connection.close()
