"""What a store does for topics.

A topic's log is a list of events (`core/queue_names.py` says how logs and groups are named). Each
group gets each event of the log once: from the log itself or, if it failed once or the group keeps
its order, from the group's own queue, which is a queue like any other: `fetch`, `settle`,
`reclaim`, `count`, `browse`, `dead`, `replay`, `pause` and so on take its name. What happens to an
event in one group is never seen by another.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

import msgspec

from headrace.core.job.ids import JobKey
from headrace.core.job.parcel import Parcel
from headrace.core.topic.topic import OnFailure
from headrace.store.values import Counts, IdempotencyKey


class Bound(msgspec.Struct, frozen=True):
    """How many events a log may hold. Those that all groups have settled, or have in their own
    queues, make room first; if there are still too many, new ones are refused or, with
    `drops_oldest`, the oldest are dropped, whether settled or not: if there are many more than the
    bound allows, some thousands with each `publish`. Groups not seen for `gone_after_ms` do not
    count; where there are no others, nobody needs the oldest: they make room as settled ones do."""

    most: int
    drops_oldest: bool = False
    gone_after_ms: int = 7 * 86_400_000


class Published(msgspec.Struct, frozen=True):
    """What `publish` did. The first `taken` events are in the log, in their order, or scheduled;
    there was no room for the others. `known` are the positions, among those taken, of events whose
    id the log has already; they were not added again. `dropped` is how many old ones had to go that
    a group still needed."""

    taken: int
    known: tuple[int, ...] = ()
    dropped: int = 0


class Position(msgspec.Struct, frozen=True):
    """A place in a log: behind its last event, before its first, before `event`, or before the
    first that was added at `at_ms` or later."""

    kind: Literal["new", "start", "event", "time"]
    event: JobKey = b""
    at_ms: int = 0


class Group(msgspec.Struct, frozen=True):
    """What a group wants. `ordered`: events of one key (the lane of their constraints) are handled
    one after the other, in the order of the log, retries included. If one of them goes dead, the
    key is stopped (`block`: later ones wait, blocked) or failed (`fail_key`: later ones go dead as
    `key_failed`) until `free_key`, or the later ones go on (`skip`). A stopped key also goes on if
    the event that went dead is replayed, which then goes first, or purged."""

    ordered: bool = False
    on_failure: OnFailure = "skip"


class GroupState(msgspec.Struct, frozen=True):
    """A group as it is now, in one shard."""

    name: str
    ordered: bool
    on_failure: OnFailure
    behind: int
    """Events of the log that the group has not taken yet; also part of `counts.waiting`."""
    counts: Counts
    oldest_ms: int | None
    """When the oldest event that is not settled was added to the log; None if there is none. In the
    group's own queue, the first few in each state speak for the others."""
    seen_ms: int
    """When a worker of the group last looked for work, give or take a minute."""
    stopped_keys: int = 0


class LoggedEvent(msgspec.Struct, frozen=True):
    """An event as it stands in a log."""

    key: JobKey
    at_ms: int
    """When it was added to the log, by the store's clock."""
    envelope: bytes
    cursor: str
    """`read` after it gives the next one."""


class Trimmed(msgspec.Struct, frozen=True):
    """What `trim` did; `more` says that there is more to remove at once. `gone` are groups that
    were not seen for so long that they hold the log back no longer."""

    removed: int = 0
    more: bool = False
    gone: tuple[str, ...] = ()


class StoppedKey(msgspec.Struct, frozen=True):
    """A key of an ordered group of which an event went dead."""

    key: str
    state: Literal["blocked", "failed"]
    event: JobKey
    """The one that went dead."""
    since_ms: int
    waiting: int = 0
    """How many later ones wait behind it."""


class TopicStore(Protocol):
    """The part of `Store` that is about topics."""

    async def publish(
        self,
        log: str,
        events: Sequence[Parcel],
        *,
        bound: Bound | None = None,
        repeat: bool = False,
        idempotency: IdempotencyKey | None = None,
    ) -> Published:
        """Add events to the log, in this order, or schedule them to be added at their time. The
        lane of an event's constraints is its key. `repeat` says that an earlier try may have been
        carried out, or that a caller chose an id, so events that are there already are looked for.
        Asked again with the same `idempotency`, it is applied once."""
        ...

    async def join(self, queue: str, group: Group, begin: Position) -> bool:
        """See to it that the group of this queue exists, and is as `group` says; a new one begins
        at `begin`. One that this store has joined before and that is missing was removed on
        purpose, and is left so; or was lost with the log, and begins with its first event. To be
        called before a consumer reads it. Whether it is new. Raises `EventNotFound` if the event at
        which it should begin is not in the log."""
        ...

    async def disband(self, queue: str) -> bool:
        """Remove a group with all that it holds, dead events included; False if there is none."""
        ...

    async def rewind(self, queue: str, to: Position) -> None:
        """Have the group handle, from now on, what comes after this place in the log, back or
        forth. What runs, is to be tried again or is no longer in the log, it still handles. An
        ordered group forgets all else that it has taken, so that events of a key come in their
        order: those after the place come again, those before it are passed over. Keys that were
        stopped or failed by an event after the place are so no more; a dead event that the group
        comes across again is dead no more, unless its key is failed by another, which leaves it as
        it is. Raises `EventNotFound`, and `GroupNotFound`."""
        ...

    async def position(self, log: str, place: Position) -> str:
        """The cursor after which `read` gives what comes behind this place."""
        ...

    async def read(
        self, log: str, after: str = "", limit: int = 100, wait: float = 0.0
    ) -> list[LoggedEvent]:
        """Events after a cursor, from the oldest kept if it is empty. Waits up to `wait` seconds
        for the first. Changes nothing for any group."""
        ...

    async def logs(self) -> list[str]:
        """Names of all logs that were ever published to or joined, sorted."""
        ...

    async def lengths(self, logs: Sequence[str]) -> dict[str, int]:
        """How many events each of these logs holds, settled or not: none, if there is no such log.
        In one call or a few, as `survey` is, and so is `groups`."""
        ...

    async def groups(self, logs: Sequence[str]) -> dict[str, list[GroupState]]:
        """The groups of each of these logs, by name."""
        ...

    async def trim(self, log: str, *, retention_ms: int, gone_after_ms: int) -> Trimmed:
        """Remove events that were added longer than `retention_ms` ago and that every group has
        settled, or has in its own queue; groups not seen for `gone_after_ms` do not count. Nothing
        else is ever removed but by a `Bound`. Short; about one worker of the fleet at a time does
        anything."""
        ...

    async def stopped_keys(self, queue: str, limit: int = 1000) -> list[StoppedKey]:
        """Keys of an ordered group that are stopped or failed, by name."""
        ...

    async def free_key(self, queue: str, key: str) -> bool:
        """Let the events of a stopped or failed key be handled again: those that wait go on; those
        that are dead stay so until they are replayed. False if the key was neither."""
        ...
