"""The end of a worker's process."""

from __future__ import annotations

import threading

from headrace.cli.processes.worker_process import Watchdog
from tests.cli.programs import LONG


def test_a_watchdog_ends_what_does_not_end_by_itself() -> None:
    bitten = threading.Event()
    watchdog = Watchdog(0.0, 0.0, bitten.set)
    watchdog.start()
    watchdog.request_stop()
    assert bitten.wait(LONG)


def test_a_second_signal_shortens_the_watchdogs_patience() -> None:
    bitten = threading.Event()
    watchdog = Watchdog(3600.0, 0.0, bitten.set)
    watchdog.start()
    watchdog.request_stop()
    watchdog.request_stop()
    assert bitten.wait(LONG)


def test_a_signal_may_come_while_the_one_before_it_is_handled() -> None:
    watchdog = Watchdog(3600.0, 0.0, lambda: None)

    class Interrupted(threading.Event):
        def set(self) -> None:
            with self._cond:  # type: ignore[attr-defined]
                watchdog.request_stop()

    watchdog._stop_requested = Interrupted()
    handling = threading.Thread(target=watchdog.request_stop, daemon=True)
    handling.start()
    handling.join(LONG)
    assert not handling.is_alive()
    assert watchdog.stop_requested
