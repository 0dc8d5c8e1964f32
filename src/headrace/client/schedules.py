"""Schedules, at run time: `app.schedules`."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any, Protocol, Unpack

import msgspec

from headrace.client.app import ClientApp
from headrace.client.include.routed_task import RoutedTask
from headrace.client.job import Job
from headrace.client.schedule import Schedule
from headrace.client.task import Task
from headrace.core import bounds as limits
from headrace.core.job import ids
from headrace.core.job.capacity import Runner
from headrace.core.job.envelope import Malformed
from headrace.core.job.ids import JobId
from headrace.core.job.parcel import Parcel, Tick
from headrace.core.schedule.cadence import to_zone
from headrace.core.schedule.declaration import commanded
from headrace.core.schedule.definition import Definition, Times, check_schedule_name, define
from headrace.core.schedule.schedule import Record, arm, decode_record, encode_record, tick_id
from headrace.core.task.call import Call
from headrace.errors import (
    ConfigError,
    EnqueueUnknown,
    HeadraceError,
    QueueFull,
    ScheduleNotFound,
    StoreError,
    StoreUnavailable,
)
from headrace.store.contract import Store

SPACE = "schedules"


class SchedulesApp(ClientApp, Protocol):
    """What schedules need of the app that keeps them."""

    @property
    def tasks(self) -> Mapping[str, Task[..., Any]]: ...


class Schedules:
    """What `app.schedules` does. Changes reach all workers at once."""

    def __init__(self, app: SchedulesApp) -> None:
        self._app = app
        self.declared: dict[str, Definition] = {}
        """Those of `@app.cron` and `@app.every`, by name."""

    def prepare(
        self,
        task: Task[..., Any],
        name: str | None,
        arguments: tuple[Sequence[Any], Mapping[str, Any]],
        times: Times,
    ) -> Callable[[], None]:
        """Declares a schedule, which cannot fail any more, under the task's name if it has none;
        `ConfigError` if it would be refused."""
        name = task.name if name is None else name
        if isinstance(task, RoutedTask):
            task.check_included()
        definition = define(name, task.scheduled_call(*arguments), times, declared=True)
        if name in self.declared:
            raise ConfigError(f"two schedules are named {name!r}: give one of them name=…")
        return partial(self.declared.__setitem__, name, definition)

    async def upsert(self, name: str, call: Call[Any], **times: Unpack[Times]) -> Schedule:
        """Make a schedule, or change it. One that stays the same goes on as it was; one that is
        changed begins again, from now and with no jobs fired, but stays paused if it was.

        Args:
            name: The name of the schedule.
            call: What each tick sends: what `task.call` made.
            cron: A cron expression of five fields, such as "*/5 * * * *", or six with seconds.
            every: Seconds, or a timedelta, between two ticks; instead of `cron`.
            timezone: The time zone that `cron` is in, such as "Europe/Berlin"; "UTC" unless said.
            missed: What happens to ticks at which no worker ran: "skip", the default, "once" for
                one job in all, or "all" for one each.
            start: No tick before this: an aware datetime.
            end: No tick after this: an aware datetime.
            limit: How many ticks there are in all; no limit unless said.
        """
        if check_schedule_name(name) in self.declared:
            raise ConfigError(f"schedule {name!r} is declared in the code: change it there")
        definition = define(name, call, times)
        store = await self._store()
        now_ms = await store.time_ms()
        return Schedule.of(name, await put(store, name, definition, now_ms), now_ms)

    async def list(self) -> builtins.list[Schedule]:
        """All schedules by name, also those that this app declares and no worker has seen yet."""
        store = await self._store()
        now_ms = await store.time_ms()
        records = await store.kv_all(SPACE)
        fresh = {name: arm(given, now_ms) for name, given in self.declared.items()}
        found = {name: Schedule.of(name, record, now_ms) for name, record in fresh.items()}
        for name, data in records.items():
            found[name] = Schedule.read(name, data, now_ms)
        return [found[name] for name in sorted(found)]

    async def records(self) -> dict[str, Record]:
        """The record of each schedule that can be read, as in `list`; one call to the store."""
        store = await self._store()
        found = {name: arm(given, 0) for name, given in self.declared.items()}
        for name, data in (await store.kv_all(SPACE)).items():
            with suppress(HeadraceError):
                found[name] = decode_record(data)
        return found

    async def get(self, name: str) -> Schedule:
        """One schedule; `ScheduleNotFound` if there is none of that name.

        Args:
            name: The name of the schedule.
        """
        check_schedule_name(name)
        for schedule in await self.list():
            if schedule.name == name:
                return schedule
        raise ScheduleNotFound(name)

    async def ticks(self, name: str, count: int = 5) -> builtins.list[datetime]:
        """The next times at which a schedule ticks, up to `count`, in its time zone; none while it
        is paused, after its end, or if it cannot be read.

        Args:
            name: The name of the schedule.
            count: How many at most.
        """
        check_schedule_name(name)
        limits.check_count("count", count)
        store = await self._store()
        now_ms = await store.time_ms()
        data = (await store.kv_all(SPACE)).get(name)
        armed = self._declared(name, now_ms) if data is None else None
        try:
            record = armed or decode_record(data or b"")
            zone = to_zone(record.definition.cadence.zone)
            ticks = record.coming(now_ms, count)
        except HeadraceError:
            return []
        return [datetime.fromtimestamp(tick / 1000, zone) for tick in ticks]

    async def remove(self, name: str) -> None:
        """Forget a schedule; jobs that it has sent stay. One that is declared in code is made again
        by the next worker that starts with that code.

        Args:
            name: The name of the schedule.
        """
        check_schedule_name(name)
        store = await self._store()
        if name not in await store.kv_all(SPACE):
            raise ScheduleNotFound(name)
        await store.kv_set(SPACE, name, None)

    async def pause(self, name: str) -> Schedule:
        """Stop a schedule until `resume`; deploying its code again does not start it.

        Args:
            name: The name of the schedule.
        """
        return await self._changed(name, lambda record, now_ms: record.pause())

    async def resume(self, name: str) -> Schedule:
        """Undo `pause`. Ticks that came meanwhile are not made up for.

        Args:
            name: The name of the schedule.
        """
        return await self._changed(name, lambda record, now_ms: record.resume(now_ms))

    async def run_now(self, name: str) -> Job[Any]:
        """Send one job now, outside of the ticks: paused or not, and not counted.

        Args:
            name: The name of the schedule.
        """
        check_schedule_name(name)
        store = await self._store()
        definition = (await self._record(store, name)).definition
        job = await self._app.outgoing.send(self._call(definition))
        await self._note_run(store, name, ids.to_id(job.id))
        return job

    async def _note_run(self, store: Store, name: str, job_id: JobId) -> None:
        def noted(old: Record | None) -> Record:
            if old is None:  # declared, and no worker has begun it yet
                raise ScheduleNotFound(name)
            return old.ran_now(now_ms, job_id)

        # Only for lists: the job is sent, and an error here would have it sent again.
        with suppress(HeadraceError):
            now_ms = await store.time_ms()
            await rewrite(store, name, noted)

    async def send_ticks(
        self, name: str, definition: Definition, ticks: Sequence[int], now_ms: int
    ) -> builtins.list[Exception]:
        """Send the jobs of these ticks, and return the errors of those that middleware refused, or
        for which a queue had no room. A tick that has its job already gets no second one."""
        through = self._app.outgoing.sending
        if through is None:
            runner = self._runner(definition)
            jobs = [
                definition.parcel(tick_id(name, at), now_ms, Tick(name, at), runner) for at in ticks
            ]
            try:
                await self._append(definition.queue, jobs)
            except QueueFull as error:
                return [error] * len(error.job_ids)
            return []
        refused: builtins.list[Exception] = []
        for at_ms in ticks:
            send = through(partial(self._send_tick, Tick(name, at_ms), now_ms))
            try:
                await send(self._call(definition))
            except StoreError:
                raise
            except Exception as error:
                refused.append(error)
        return refused

    async def _send_tick(self, tick: Tick, now_ms: int, call: Call[Any]) -> Job[Any]:
        """Send what middleware made of a tick's call: under the tick's id, so that it stays one."""
        key = tick_id(tick.schedule, tick.at_ms)
        named = call.with_options(msgspec.structs.replace(call.options, id=ids.to_text(key)))
        await self._append(call.queue, [msgspec.structs.replace(named.parcel(now_ms), tick=tick)])
        return Job(self._app, key, call.queue, call.returns)

    async def _append(self, queue: str, jobs: Sequence[Parcel]) -> None:
        session = await self._app.session()
        try:
            await session.sender.send_now(queue, jobs, custom_ids=True)
        except EnqueueUnknown as error:
            # Sent again with the next look, under the same ids.
            raise StoreUnavailable(str(error), sent=True) from error

    def _call(self, definition: Definition) -> Call[Any]:
        task = self._app.tasks.get(definition.task)
        returns = Any if task is None else task.signature.returns
        return definition.call(returns, self._runner(definition))

    def _runner(self, definition: Definition) -> Runner:
        task = self._app.tasks.get(definition.task)
        return "loop" if task is None else task.declared.run_in

    async def _changed(self, name: str, change: Callable[[Record, int], Record]) -> Schedule:
        check_schedule_name(name)
        store = await self._store()
        now_ms = await store.time_ms()

        def changed(old: Record | None) -> Record:
            return change(old or self._declared(name, now_ms), now_ms)

        return Schedule.of(name, await rewrite(store, name, changed), now_ms)

    async def _record(self, store: Store, name: str) -> Record:
        data = (await store.kv_all(SPACE)).get(name)
        return self._declared(name, 0) if data is None else decode_record(data)

    def _declared(self, name: str, now_ms: int) -> Record:
        """As the first worker will make it."""
        if name not in self.declared:
            raise ScheduleNotFound(name)
        return arm(self.declared[name], now_ms)

    async def _store(self) -> Store:
        return (await self._app.session()).store


async def put(store: Store, name: str, definition: Definition, now_ms: int) -> Record:
    """See that a schedule is in the store as defined; writes only if it is not."""

    def change(old: Record | None) -> Record:
        return commanded(name, definition, now_ms, old)

    return await rewrite(store, name, change, over_broken=True)


async def rewrite(
    store: Store,
    name: str,
    change: Callable[[Record | None], Record],
    *,
    over_broken: bool = False,
) -> Record:
    """Change a record by compare-and-set. With `over_broken`, a record that cannot be read counts
    as none."""
    while True:
        data = (await store.kv_all(SPACE)).get(name)
        new = change(None if data is None else _decoded(name, data, over_broken))
        encoded = encode_record(new)
        if encoded == data or await store.kv_set(SPACE, name, encoded, expected=data):
            return new


def _decoded(name: str, data: bytes, over_broken: bool) -> Record | None:
    try:
        return decode_record(data)
    except Malformed as error:
        if over_broken:
            return None
        raise Malformed(f"schedule {name!r}: {error}; remove it, or make it again") from None
