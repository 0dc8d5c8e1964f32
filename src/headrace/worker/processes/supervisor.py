"""Keeps several worker processes running, from a parent that does no work itself."""

from __future__ import annotations

import logging
import signal
import socket
import time
from collections.abc import Callable
from typing import Protocol

from headrace.core.breaker import QUICK_DEATHS, SURVIVAL, Breaker
from headrace.core.display import plural
from headrace.core.scaling.scaler import Scaler
from headrace.core.scaling.scaling import Scaling
from headrace.core.workers import Scaled, WorkerRecord
from headrace.worker.processes.child_lifetime import STORE_LOST, Process, how_it_ended, severity
from headrace.worker.processes.signals import DUMP, ProcessSignals
from headrace.worker.upkeep.own_strategy import OwnStrategy
from headrace.worker.upkeep.workload import WorkloadSurvey

log = logging.getLogger("headrace.supervisor")

# Seconds within which a wrong option or an unreachable store shows.
_YOUNG = 10.0
_WRONG_USE = 2


class Readings(Protocol):
    """What the supervisor needs of a `Gauge`."""

    slots_each: int
    """What one process can hold at once."""

    def start(self, wake: Callable[[], None]) -> None: ...
    def take(self) -> list[WorkloadSurvey | None]: ...
    def report(self, processes: Scaled) -> None: ...
    def stop(self) -> None: ...


class _Seat:
    """A place for one process, and when it is to be filled again."""

    def __init__(self) -> None:
        self.process: Process | None = None
        self.started_at = 0.0
        self.due_at = float("-inf")


class Supervisor:
    """Runs as many processes as the backlog calls for, within the bounds of `scaling`. One that
    ends unasked is replaced, as a `Breaker` allows. A surplus one, the idlest first, is asked to
    stop, and awaited. If the first ones end at once with the exit code for wrong use, all is
    stopped; later that is a trouble like others, such as a store that is away while one process is
    replaced. One that ends because the store was away for longer than `max_reconnect` stops all.
    With `burst`, one that ends by itself has found nothing more to do: it is not
    replaced, and when all have ended, so has this."""

    def __init__(
        self,
        scaling: Scaling,
        start: Callable[[], Process],
        *,
        gauge: Readings | None = None,
        strategy: OwnStrategy | None = None,
        burst: bool = False,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.scaler = Scaler(scaling, strategy, name="worker processes")
        self.breaker = Breaker()
        self._gauge = gauge
        self._seats = [_Seat() for _ in range(scaling.least)]
        self._leaving: list[Process] = []
        # All there ever were: the record of one that was killed is there for a while.
        self._pids: set[int] = set()
        self._start = start
        self._burst = burst
        self._monotonic = monotonic
        self._host = socket.gethostname()
        self._proven = False
        self._codes: list[int] = []
        self.stopping = False

    @property
    def active(self) -> int:
        """The number of processes that are not being stopped."""
        return sum(seat.process is not None for seat in self._seats)

    @property
    def ages(self) -> dict[int, float]:
        """Age in seconds of each process that is not being stopped, by pid; from any thread."""
        now = self._monotonic()
        filled = [(seat.process, seat.started_at) for seat in tuple(self._seats)]
        return {process.pid: now - since for process, since in filled if process is not None}

    @property
    def pids(self) -> set[int]:
        """All living processes, also those being stopped; from any thread."""
        return {*self.ages, *(process.pid for process in tuple(self._leaving))}

    @property
    def scaled(self) -> Scaled:
        """Their number, and the decisions about it; from any thread."""
        slots = self.active * self._gauge.slots_each if self._gauge else 0
        return Scaled.of(self.scaler, self.breaker, self.active, slots)

    @property
    def finished(self) -> bool:
        return self.stopping and not self.active and not self._leaving

    @property
    def exit_code(self) -> int:
        """The worst exit code of processes that were asked to stop: 3 over 2 over 1 over 0."""
        return max(map(severity, self._codes), default=0)

    def run(self) -> int:
        """Supervise until a signal of `ending_signals`, and until all processes have ended; the
        exit code, with which this process should end. From then on these signals are ignored."""
        with ProcessSignals() as signals:
            if self._gauge is not None:
                self._gauge.start(signals.wake)
            while True:
                rest = self.step()
                if self.finished:
                    break
                for number in signals.wait(rest):
                    self._apply_control(number)
            if self._gauge is not None:
                self._gauge.stop()
        code = self.exit_code
        said = "supervisor ended with exit code %d%s"
        log.info(said, code, self._summary(), extra={"exit_code": code})
        return code

    def _apply_control(self, number: int) -> None:
        if number == DUMP:
            for process in [*self._leaving, *self._seated()]:
                process.send_signal(DUMP)
        # A terminal that is closed may say so twice, which is no wish to hurry.
        elif number != signal.SIGCHLD and not (number == signal.SIGHUP and self.stopping):
            self.stop()

    def step(self) -> float | None:
        """Check every process once. The seconds until one is to be started; None if only the end of
        a process, a signal or a survey can change something."""
        self._note_ends()
        if self.stopping:
            return None
        for survey in self._gauge.take() if self._gauge else []:
            self._scale(survey)
        for seat in self._seats:
            if seat.process is None and seat.due_at <= self._monotonic():
                self._fill(seat)
        if self._gauge is not None:
            self._gauge.report(self.scaled)
        due = [seat.due_at for seat in self._seats if seat.process is None]
        return max(min(due) - self._monotonic(), 0.0) if due else None

    def stop(self) -> None:
        """Ask all processes to stop; the second call makes them hurry."""
        # Those that leave have their signal: a second one would cut their jobs short.
        leaving = self._leaving if self.stopping else []
        self.stopping = True
        for process in [*leaving, *self._seated()]:
            # SIGTERM for SIGINT too: a process that is still starting then leaves quietly.
            process.send_signal(signal.SIGTERM)

    def _seated(self) -> list[Process]:
        return [seat.process for seat in self._seats if seat.process]

    def _scale(self, survey: WorkloadSurvey | None) -> None:
        if survey is None:
            self.scaler.blind()
            return
        loads = survey.loads(self.active, self._is_ours)
        decision = self.scaler.decide(self._monotonic(), *loads)
        if decision.reason:
            log.info("worker processes: %s", decision.why, extra={"target": decision.target})
            self._resize(decision.target, survey)

    def _is_ours(self, worker: WorkerRecord) -> bool:
        return worker.host == self._host and worker.pid in self._pids

    def _resize(self, target: int, survey: WorkloadSurvey) -> None:
        def busyness(seat: _Seat) -> tuple[int, float]:
            """Empty seats first, then what holds least, then the youngest."""
            held = survey.held_by(self._host, seat.process.pid) if seat.process else -1
            return held, -seat.started_at

        self._seats += [_Seat() for _ in range(target - len(self._seats))]
        for seat in sorted(self._seats, key=busyness)[: len(self._seats) - target]:
            self._seats.remove(seat)
            if seat.process is not None:
                pid = seat.process.pid
                log.info("worker process %d is asked to stop", pid, extra={"pid": pid})
                seat.process.send_signal(signal.SIGTERM)
                self._leaving.append(seat.process)

    def _fill(self, seat: _Seat) -> None:
        now = self._monotonic()
        seat.due_at = now + self.breaker.wait(now)
        if seat.due_at > now:
            return
        try:
            seat.process = self._start()
        except OSError as error:
            pause = self._postpone(seat, lived=0.0)
            said = "no worker process can be started: %s; next try in %g s"
            log.error(said, error, pause, extra={"error": str(error)})
            return
        seat.started_at = now
        self._pids.add(seat.process.pid)
        self.breaker.started(now)
        log.info("worker process %d started", seat.process.pid, extra={"pid": seat.process.pid})

    def _note_ends(self) -> None:
        for seat in tuple(self._seats):
            code = seat.process.poll() if seat.process else None
            if seat.process is not None and code is not None:
                self._note_end(seat, seat.process.pid, code)
        for process in list(self._leaving):
            code = process.poll()
            if code is not None:
                self._leaving.remove(process)
                self._note_asked_end(process.pid, code)

    def _note_end(self, seat: _Seat, pid: int, code: int) -> None:
        lived = self._monotonic() - seat.started_at
        self._proven = self._proven or self._longest_life() >= _YOUNG
        seat.process = None
        if self.stopping:
            self._note_asked_end(pid, code)
        elif self._burst and code in (0, 1):
            self._note_asked_end(pid, code)
            self._seats.remove(seat)
            self.stopping = not self._seats
        elif code == STORE_LOST or (code == _WRONG_USE and not self._proven):
            self._codes.append(code)
            when = "" if code == STORE_LOST else " at its start"
            log.error(
                "worker process %d %s%s; giving up",
                *(pid, how_it_ended(code), when),
                extra={"pid": pid, "exit_code": code},
            )
            self.stop()
        else:
            pause = self._postpone(seat, lived)
            log.warning(
                "worker process %d %s after %.1f s; a new one starts in %g s",
                *(pid, how_it_ended(code), lived, pause),
                extra={"pid": pid, "exit_code": code},
            )

    def _note_asked_end(self, pid: int, code: int) -> None:
        self._codes.append(code)
        log.info(
            "worker process %d %s", pid, how_it_ended(code), extra={"pid": pid, "exit_code": code}
        )

    def _postpone(self, seat: _Seat, lived: float) -> float:
        was = self.breaker.state
        now = self._monotonic()
        pause = self.breaker.died(now, lived, self.active)
        seat.due_at = now + pause
        if self.breaker.state == "open":
            if not self.active:
                # One has to work: whichever seat it has, and however long others wait.
                for empty in self._seats:
                    empty.due_at = now + pause
            if was == "closed":
                log.error(
                    "%d worker processes died soon after their start; until a new one lives for "
                    "%g s, no other is started, and one is kept going",
                    *(QUICK_DEATHS, SURVIVAL),
                    extra={"count": QUICK_DEATHS},
                )
        return pause

    def _longest_life(self) -> float:
        now = self._monotonic()
        return max(now - seat.started_at for seat in self._seats if seat.process)

    def _summary(self) -> str:
        ups, downs, deaths = self.scaler.ups, self.scaler.downs, self.breaker.deaths
        scaled = ("scaled up", ups.total()), ("scaled down", downs.total())
        happened = (*scaled, ("lost a process", deaths))
        return "".join(f"; {what} {plural(n, 'time')}" for what, n in happened if n)
