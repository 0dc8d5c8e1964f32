"""What an app under test has sent and published."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from headrace.admin.app import AdminApp, caller_parameters, named
from headrace.admin.bodies import arguments_of
from headrace.client.task import Task
from headrace.core import codec
from headrace.core.clock import to_datetime
from headrace.core.job import ids
from headrace.core.job.constraints import KEY_LANE
from headrace.core.job.envelope import Envelope, decode_envelope
from headrace.core.job.failure import Unfit
from headrace.core.job.ids import JobId
from headrace.core.job.parcel import Parcel
from headrace.core.misfit import Misfit
from headrace.core.payload.packing import unpacked
from headrace.core.queue_names import log_name
from headrace.core.topic.event import Event
from headrace.errors import HeadraceError

_MOST_SHOWN = 120


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """A job that was sent, in a test."""

    id: str
    """The job's id."""
    task: str
    """The name of its task."""
    arguments: dict[str, Any]
    """By name, as the worker gets them; without the first one, if that is the result of others."""
    queue: str
    """The queue it was sent to."""
    delay: float
    """Seconds from when it was sent until it may start; 0 for at once."""
    at: datetime
    """When it may start."""
    key: str
    """Its key; empty if it has none."""
    priority: int
    """From 0 to 100."""
    headers: Mapping[str, str]
    """What `options(headers=…)` and middleware gave it."""
    tags: tuple[str, ...]
    """What `options(tags=…)` filed it under."""
    expires: datetime | None
    """When it may no longer start; None if it always may."""
    schedule: str
    """The schedule whose tick it is; empty if it is none."""

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}={shown(value)}" for name, value in self.arguments.items())
        options = {
            "delay": self.delay and f"{self.delay:g}",
            "queue": "" if self.queue == "default" else repr(self.queue),
            "key": self.key and repr(self.key),
            "priority": self.priority,
            "headers": self.headers or "",
            "tags": self.tags or "",
            "expires": self.expires and self.expires.isoformat(),
            "schedule": self.schedule and repr(self.schedule),
        }
        said = [f"{name}={value}" for name, value in options.items() if value]
        return f"{self.task}({arguments}){' with ' if said else ''}{', '.join(said)}"


def shown(value: object) -> str:
    """A value for a message: not too much of it."""
    text = repr(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[: _MOST_SHOWN - 1]}…"


class _Stored(NamedTuple):
    place: str
    """The queue or the log."""
    parcel: Parcel
    at_ms: int


class SentLog:
    """Remembers what the store was given, and took. What was sent again and is there already is not
    added; what a debounced job replaces is replaced here too."""

    def __init__(self, app: AdminApp) -> None:
        self.app = app
        self._jobs: list[_Stored] = []
        self._events: list[_Stored] = []

    def appended(
        self, queue: str, parcels: Sequence[Parcel], instead: Mapping[int, JobId], now_ms: int
    ) -> None:
        """A store has answered `append` with `instead`."""
        for position, parcel in enumerate(parcels):
            if position not in instead:
                self._jobs.append(_Stored(queue, parcel, now_ms))
            elif parcel.constraints.debounced:
                self._replace(instead[position], parcel, now_ms)

    def _replace(self, job_id: JobId, parcel: Parcel, now_ms: int) -> None:
        for position, stored in enumerate(self._jobs):
            if stored.parcel.job_id == job_id:
                same = msgspec.structs.replace(parcel, job_id=job_id)
                self._jobs[position] = _Stored(stored.place, same, now_ms)

    def published(self, log: str, events: Sequence[Parcel], now_ms: int) -> None:
        """A store has taken these, and they are new."""
        self._events += [_Stored(log, each, now_ms) for each in events]

    def __len__(self) -> int:
        """How many jobs were sent."""
        return len(self._jobs)

    def jobs(self) -> list[Sent]:
        """All jobs that were sent, in order."""
        return [self._sent(each) for each in self._jobs]

    def events(self, topic: str) -> list[Event[Any]]:
        """All events that were published to a topic of the app, in order."""
        declared, task = self.app.topics[topic], log_name(topic)
        envelopes = [decode_envelope(each.parcel.envelope) for each in self._events]
        return [declared.event_of(each) for each in envelopes if each.task == task]

    def _sent(self, stored: _Stored) -> Sent:
        parcel = stored.parcel
        envelope = decode_envelope(parcel.envelope)
        overrides, constraints = envelope.overrides, parcel.constraints
        due_ms = stored.at_ms + (parcel.delay_ms or 0)
        if parcel.at_ms is not None:
            due_ms = parcel.at_ms
        lane, expires_ms = constraints.lane, overrides.expires_ms
        return Sent(
            id=ids.to_text(parcel.job_id),
            task=envelope.task,
            arguments=arguments_by_name(self.app, envelope),
            queue=stored.place,
            delay=max(due_ms - stored.at_ms, 0) / 1000,
            at=to_datetime(due_ms),
            key=lane.removeprefix(KEY_LANE) if lane.startswith(KEY_LANE) else "",
            priority=constraints.priority,
            headers=overrides.headers,
            tags=overrides.tags,
            expires=None if expires_ms is None else to_datetime(expires_ms),
            schedule="" if parcel.tick is None else parcel.tick.schedule,
        )


def arguments_by_name(app: AdminApp, envelope: Envelope) -> dict[str, Any]:
    """The arguments in an envelope, converted as its task says; as plain values if they do not fit
    it, or if the app has no such task."""
    task = app.tasks.get(envelope.task)
    fed = bool(envelope.overrides.feed)
    if task is not None:
        try:
            envelope = unpacked(envelope, app.max_payload)
            return _without_first(task, envelope) if fed else bound(task, *task.unpack(envelope))
        except (HeadraceError, Misfit, Unfit):
            pass
    plain = arguments_of(envelope)
    found = named(app, envelope.task, plain, lacks_first_argument=fed)
    return found if isinstance(found, dict) else {"arguments": found}


def _without_first(task: Task[..., Any], envelope: Envelope) -> dict[str, Any]:
    signature = task.signature.with_any_first()
    found = bound(task, *signature.decode_with_first(envelope.payload, codec.encode(None)))
    return {name: value for name, value in found.items() if name != signature.first_name}


def bound(task: Task[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments by the names of the task's parameters, those that are given; `TypeError` if it has
    no such parameter."""
    python = inspect.Signature(list(caller_parameters(task).values()))
    found = python.bind_partial(*args, **kwargs).arguments
    for name, parameter in python.parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            found |= found.pop(name, {})
    return dict(found)
