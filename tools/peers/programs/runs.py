"""What all these programs share: the server, and a file in which each run leaves one byte."""

import os
import sys
import time
from collections.abc import Callable

URL = os.environ["PEERS_URL"]
# Nothing is kept of jobs that are done, as far as a system can do without.
BARE = os.environ["PEERS_SETTINGS"] == "bare"
_runs = os.open(os.environ["PEERS_RUNS"], os.O_WRONLY | os.O_APPEND)


def note_run() -> None:
    """One byte, appended: the kernel keeps those of all processes, at the same cost for each."""
    os.write(_runs, b".")


def report_sends(send: Callable[[], object], count: int) -> None:
    """Send one job after the other, and print the seconds and the CPU seconds that each took."""
    began, busy = time.perf_counter(), time.process_time()
    for _ in range(count):
        send()
    took, used = time.perf_counter() - began, time.process_time() - busy
    sys.stdout.write(f"{took / count} {used / count}")
