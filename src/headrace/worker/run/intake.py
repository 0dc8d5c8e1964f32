"""Reads a delivery, and decides whether it may run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.client.send.offloading import load
from headrace.core.bounds import MAX_ENVELOPE_BESIDE_PAYLOAD
from headrace.core.job.constraints import read_constraints
from headrace.core.job.delivery import LeasedDelivery
from headrace.core.job.envelope import Malformed, NewerFormat, decode_envelope
from headrace.core.job.failure import GateClosed, PayloadUnavailable, Unfit
from headrace.core.job.history import decode_history
from headrace.core.job.ids import JobId
from headrace.core.job.outcome import task_gate
from headrace.core.job.state import Reason
from headrace.core.job.unknown import BadArguments, DeclaredOtherwise, NotKnownHere
from headrace.core.payload.compression import CannotDecompress, NotInstalled
from headrace.core.payload.packing import TooLarge, unpacked
from headrace.errors import TaskCancelled
from headrace.store.values import Control
from headrace.worker.run.run import Run
from headrace.worker.run.run_settings import RunSettings

if TYPE_CHECKING:
    from headrace.client.fallback import Fallback
    from headrace.client.task import Task

_decode_inputs = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode


class Intake:
    """The first steps of every job. Each raises if the job goes no further: `Unfit` for good,
    `NotKnownHere` for this worker, `GateClosed` for now; `judged` says which of the first two
    `BadArguments` are. Arguments for a process are left as they are unless `unpack_all`."""

    def __init__(
        self,
        tasks: Mapping[str, Task[..., Any]],
        settings: RunSettings,
        *,
        unpack_all: bool,
    ) -> None:
        self._tasks = tasks
        self._unpack_all = unpack_all
        self._crash_limit = settings.crash_limit
        # A topic may have a limit of its own, below or above the app's.
        limits = [task.max_payload for task in tasks.values()]
        self._max_payload = max(limits, default=settings.max_payload)
        self._max_envelope = self._max_payload + MAX_ENVELOPE_BESIDE_PAYLOAD
        self._now_ms = settings.now_ms
        self._fallback = settings.fallback
        self._others = settings.others
        self._controls: dict[str, _QueueControl] = {}

    def apply_control(self, queue: str, control: Control, in_hand: Collection[JobId] = ()) -> None:
        """Apply pauses and cancellations to jobs that come from now on. Jobs `in_hand` are ended by
        the stopper."""
        if control.paused_tasks or control.cancelling:
            self._controls[queue] = _QueueControl(control, in_hand)
        else:
            self._controls.pop(queue, None)

    def decode(self, run: Run) -> bool:
        """Whether the payload is there; if not, `load` comes next."""
        delivery = run.delivery
        # Before it is decoded: a few bytes on the wire can take a thousand times the memory.
        if len(delivery.envelope) > self._max_envelope:
            delivery.identify()
            raise self._oversize(f"it has {len(delivery.envelope):,} bytes in all")
        try:
            run.envelope = decode_envelope(delivery.envelope)
        except Malformed as error:
            delivery.identify()
            raise Unfit(Reason.MALFORMED, str(error)) from None
        except NewerFormat as error:
            delivery.identify()
            if delivery.history:
                run.history = decode_history(delivery.history)
            raise NotKnownHere(Reason.NEWER_FORMAT, str(error)) from None
        delivery.job_id = run.envelope.job_id
        beside = len(delivery.envelope) - len(run.envelope.payload)
        if beside > MAX_ENVELOPE_BESIDE_PAYLOAD:
            raise Unfit(
                Reason.MALFORMED,
                f"it brings {beside:,} bytes beside its data, at most "
                f"{MAX_ENVELOPE_BESIDE_PAYLOAD:,} are allowed",
            )
        if len(run.envelope.payload) > self._max_payload:
            raise self._oversize(f"its data takes {len(run.envelope.payload):,} bytes")
        if run.envelope.overrides.packing is not None:
            self._unpack(run)
        if delivery.history:
            run.history = decode_history(delivery.history)
        if self._controls:
            # Before other checks: a task may be paused because it is being fixed.
            self._check_control(run)
        packing = run.envelope.overrides.packing
        return packing is None

    async def load(
        self,
        run: Run,
        go_on: Callable[[LeasedDelivery, Run], None],
        turn_back: Callable[[Run, BaseException], None],
    ) -> None:
        """Fetch the payload from outside of the store, and go on with it."""
        task = self._tasks.get(run.envelope.task)
        try:
            if task is not None:
                run.envelope = await load(task.offload, run.envelope)
            if self._controls:
                self._check_control(run)
        except BaseException as error:
            turn_back(run, error)
        else:
            go_on(run.delivery, run)

    def _unpack(self, run: Run) -> None:
        packing = run.envelope.overrides.packing
        if packing is not None and packing.offloaded:
            return
        try:
            run.envelope = unpacked(run.envelope, self._max_payload)
        except TooLarge as error:
            raise self._oversize(f"its data takes {error.size:,} bytes") from None
        except CannotDecompress as error:
            raise Unfit(Reason.MALFORMED, str(error)) from None
        except NotInstalled as error:
            raise PayloadUnavailable(str(error)) from None

    def resolve(self, run: Run) -> None:
        envelope = run.envelope
        task: Task[..., Any]
        try:
            task = self._tasks[envelope.task]
        except KeyError:
            task = self._resolve_unknown(run)
        run.task = task
        if envelope.overrides.feed:
            run.first_argument = _first_argument(run)
        if self._unpack_all or task.declared.run_in != "process" or _is_doubtful(run):
            run.args, run.kwargs = task.unpack(envelope, run.first_argument)
        if run.history.unknown_since_ms and task is not self._fallback:
            # Now it is known, its version too. If it fails and comes to one that does not know it,
            # others have their whole time.
            run.history = msgspec.structs.replace(run.history, unknown_since_ms=0)

    def _resolve_unknown(self, run: Run) -> Fallback:
        """The fallback, if it is time for that."""
        task, fallback = run.envelope.task, self._fallback
        if run.envelope.overrides.expires_ms is not None:
            run.check_expiry()
        if fallback is not None:
            now_ms = self._now_ms()
            if now_ms - (run.history.unknown_since_ms or now_ms) >= fallback.after_ms:
                return fallback
        raise NotKnownHere(
            Reason.UNKNOWN_TASK,
            f"this worker's app has no task {task!r}; it has "
            f"{', '.join(sorted(self._tasks)) or 'none'}",
        )

    async def judged(self, run: Run, error: BadArguments) -> Unfit:
        """What it means that the arguments do not fit: the job is dead, or goes back for a worker
        that declares its task otherwise."""
        name, mark = run.envelope.task, run.task.signature.mark
        if not self._others or not await self._others.may_have(run.delivery.queue, name, mark):
            return Unfit(error.reason, str(error))
        try:
            run.check_expiry()
        except Unfit as expired:
            return expired
        return DeclaredOtherwise(error.reason, str(error))

    def check_may_run(self, run: Run) -> None:
        """Refuse a job that makes workers crash, or that has expired."""
        delivery = run.delivery
        if delivery.count > 1 or run.history.crashes:
            self._stop_crash_loop(run)
        if run.envelope.overrides.expires_ms is not None:
            run.check_expiry()
        if delivery.constraints:
            run.limited = _has_limits(delivery.constraints)

    def _oversize(self, what: str) -> Unfit:
        return Unfit(
            Reason.OVERSIZE,
            f"{what}, the limit of this worker is {self._max_payload:,}: raise max_payload, or "
            "send less",
        )

    def _check_control(self, run: Run) -> None:
        """Raise if the job was cancelled or its task is paused."""
        control = self._controls.get(run.delivery.queue)
        if control is None:
            return
        if run.delivery.job_id in control.cancelling:
            # Once: if an earlier job with this id was meant, the store gives this one again.
            control.cancelling.discard(run.delivery.job_id)
            run.cancelled = True
            raise TaskCancelled
        if run.envelope.task in control.paused:
            raise GateClosed(task_gate(run.envelope.task))

    def _stop_crash_loop(self, run: Run) -> None:
        crashes = run.history.crashes + run.delivery.count - 1
        if crashes >= self._crash_limit:
            raise Unfit(
                Reason.CRASH_LOOP,
                f"{crashes} workers died, lost their lease, or dropped it without settling",
            )
        run.on_last_chance = crashes == self._crash_limit - 1


class _QueueControl:
    """The pauses and cancellations of one queue, for quick lookups."""

    def __init__(self, control: Control, in_hand: Collection[JobId]) -> None:
        self.paused = control.paused_tasks
        self.cancelling: set[JobId] = {id_ for id_ in control.cancelling if id_ not in in_hand}


def _is_doubtful(run: Run) -> bool:
    """Whether arguments for a process are better read here: they may be for another worker, and
    the start of a process, and one that a limit counts, would be for nothing."""
    other_content = run.envelope.overrides.content != run.task.signature.content
    return other_content or run.history.unknown_since_ms > 0


def _has_limits(constraints: bytes) -> bool:
    try:
        return bool(read_constraints(constraints).limits)
    except ValueError as error:
        raise Unfit(Reason.MALFORMED, f"its constraints cannot be read: {error}") from None


def _first_argument(run: Run) -> bytes:
    """The first argument of a job that takes it from its parents, as MessagePack."""
    inputs = run.delivery.inputs
    if run.envelope.overrides.feed == "list" and inputs:
        return inputs
    try:
        return bytes(_decode_inputs(inputs)[0])
    except (msgspec.MsgspecError, IndexError, RecursionError):
        raise Unfit(
            Reason.BAD_ARGUMENTS, "the result that should be its first argument is missing"
        ) from None
