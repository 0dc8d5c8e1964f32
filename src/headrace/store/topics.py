"""What a store does for topics.

A topic's log is a list of events (`core/queue_names.py` says how logs and groups are named). Each
group gets each event of the log once: from the log itself or, if it failed once or the group keeps
its order, from the group's own queue. That is a queue like any other: `fetch`, `settle`, `reclaim`,
`count`, `browse`, `dead`, `replay`, `pause` and so on take its name. A group never sees what
happens to an event in another.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

import msgspec

from headrace.core.confirming import UNCONFIRMED, Confirming
from headrace.core.job.ids import JobId
from headrace.core.job.parcel import Parcel
from headrace.core.topic.subscription import OnFailure
from headrace.store.values import Counts, IdempotencyKey


class Bound(msgspec.Struct, frozen=True):
    """How many events a log may hold. Events that all groups have settled, or have in their own
    queues, make room first. If there are still too many, new ones are refused; with
    `drops_newest` they are dropped; with `drops_oldest` the oldest are dropped, settled or not, far
    above the bound some thousands with each `publish`. Groups not seen for `gone_after_ms` do not
    count; if there are no others, the oldest make room as settled ones do."""

    most: int
    drops_oldest: bool = False
    drops_newest: bool = False
    gone_after_ms: int = 7 * 86_400_000


class Published(msgspec.Struct, frozen=True):
    """What `publish` did. The first `taken` events are in the log, in their order, or scheduled;
    there was no room for the others. `known` has the positions, among those taken, of events whose
    id was in the log already; they were not added again. `refused` has the positions, among those
    taken, of new events that were dropped for want of room. `dropped` counts the events, old or
    new, that were dropped though a group needs them."""

    taken: int
    known: tuple[int, ...] = ()
    dropped: int = 0
    refused: tuple[int, ...] = ()


class Position(msgspec.Struct, frozen=True):
    """A place in a log: behind its last event, before its first, before `event`, or before the
    first that was added at `at_ms` or later."""

    kind: Literal["new", "start", "event", "time"]
    event: JobId = b""
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
    """When the oldest unsettled event was added to the log; None if there is none. In the group's
    own queue, only the first few of each state are examined."""
    seen_ms: int
    """When a worker of the group last read, to within a minute."""
    stopped_keys: int = 0
    stopped_events: int = 0
    """How many events of the group's own queue wait behind stopped keys. Of more than a thousand
    keys, those behind a thousand of them."""
    stopped_since_ms: int | None = None
    """When the first of those keys was stopped; None if there is none."""
    last_died_ms: int | None = None
    """When the latest of its dead events died; None if there is none."""


class LoggedEvent(msgspec.Struct, frozen=True):
    """An event as it stands in a log."""

    job_id: JobId
    at_ms: int
    """When it was added to the log, by the store's clock."""
    envelope: bytes
    cursor: str
    """`read` after it gives the next one."""


class Trimmed(msgspec.Struct, frozen=True):
    """What `trim` did; `more` says that there is more to remove now. `gone` are groups that were
    not seen for so long that they no longer hold the log back."""

    removed: int = 0
    more: bool = False
    gone: tuple[str, ...] = ()


class StoppedKey(msgspec.Struct, frozen=True):
    """A key of an ordered group, after one of its events went dead."""

    key: str
    state: Literal["blocked", "failed"]
    event: JobId
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
        may_exist: bool = False,
        idempotency: IdempotencyKey | None = None,
        confirm: Confirming = UNCONFIRMED,
    ) -> Published:
        """Add events to the log, in this order, or schedule them for their time. An event's key is
        the lane of its constraints. `may_exist` says that the log may hold an id, from an earlier
        try or because a caller chose it: then events that are there already are searched for. Asked
        again with the same `idempotency`, it is applied once. `confirm` is as in `append`."""
        ...

    async def join(self, queue: str, group: Group, begin: Position) -> bool:
        """Create the group of this queue if there is none, and set it to what `group` says; a new
        one begins at `begin`. Returns whether it is new. If this store object has joined the group
        before and it is missing, then it was removed on purpose, and stays removed; or it was lost
        with the log, and begins with the first event. To be called before a consumer reads the
        queue. Raises `EventNotFound` if the event at which it should begin is not in the log."""
        ...

    async def disband(self, queue: str) -> bool:
        """Remove a group with all that it holds, dead events included; False if there is none."""
        ...

    async def rewind(self, queue: str, to: Position) -> None:
        """Move the group to this place in the log, back or forth: it next handles what comes
        behind it. Events that run, wait for a retry or are no longer in the log are still handled.
        An ordered group forgets everything else that it has taken, so that events of a key come in
        their order: those behind the place come again, those before it are passed over. A key that
        an event behind the place had stopped or failed goes on. A dead event that the group meets
        again is no longer dead, unless another event has failed its key. Raises `EventNotFound` and
        `GroupNotFound`."""
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
        """How many events each log holds, settled or not; 0 if there is no such log. Like `survey`
        and `groups`, in as few round trips as possible."""
        ...

    async def groups(self, logs: Sequence[str]) -> dict[str, list[GroupState]]:
        """The groups of each of these logs, by name."""
        ...

    async def trim(self, log: str, *, retention_ms: int, gone_after_ms: int) -> Trimmed:
        """Remove events that were added more than `retention_ms` ago and that every group has
        settled or has in its own queue; groups not seen for `gone_after_ms` do not count. Only a
        `Bound` removes anything else. Takes little time; about one worker of the fleet at a time
        does anything."""
        ...

    async def stopped_keys(self, queue: str, limit: int = 1000) -> list[StoppedKey]:
        """Keys of an ordered group that are stopped or failed, by name."""
        ...

    async def free_key(self, queue: str, key: str) -> bool:
        """Let a stopped or failed key go on: events that wait are handled; dead ones stay dead
        until they are replayed. False if the key was neither."""
        ...
