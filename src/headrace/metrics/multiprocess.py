"""Totals of several worker processes: each writes a file, their parent adds the files up."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import msgspec

from headrace.metrics.totals import Totals, TotalsSnapshot, counters_of, merged

log = logging.getLogger("headrace.metrics")

# The variable that gives a worker process the folder for its totals.
TOTALS_DIR = "HEADRACE_METRICS_DIR"

_EVERY = 1.0
_SUFFIX = ".totals"
# A process that just started may not be among the parent's pids yet, but it writes every second.
_SURELY_ENDED = 10.0

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(TotalsSnapshot).decode


def pop_totals_dir() -> Path | None:
    """The folder in which the parent expects this process's totals, or None.

    The variable is removed: processes that this one starts are not the parent's.
    """
    folder = os.environ.pop(TOTALS_DIR, None)
    return None if folder is None else Path(folder)


class TotalsWriter:
    """Writes the totals of this process every second, and once more when closed.

    It has a thread of its own: neither a blocked event loop nor an unreachable store delays it.
    """

    def __init__(self, totals: Totals, folder: Path) -> None:
        self._totals = totals
        self._path = folder / f"{os.getpid()}-{time.time_ns()}{_SUFFIX}"
        self._parent = os.getppid()
        self._stopping = threading.Event()
        self._last_error = ""
        self._thread = threading.Thread(target=self._run, name="headrace-totals", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._stopping.set()
        self._thread.join()
        if os.getppid() != self._parent:
            # The parent was killed and could not remove the folder.
            shutil.rmtree(self._path.parent, ignore_errors=True)

    def _run(self) -> None:
        while not self._stopping.wait(_EVERY):
            self._write()
        self._write()

    def _write(self) -> None:
        try:
            _replace(self._path, _encode(self._totals.snapshot()))
        except Exception as error:
            # The parent may be gone, and the folder with it. This thread must go on: a parent
            # takes a process that stops writing for dead.
            if repr(error) != self._last_error:
                log.warning(
                    "the totals cannot be written for the metrics: %r",
                    error,
                    extra={"error": repr(error)},
                )
            self._last_error = repr(error)


def _replace(path: Path, data: bytes) -> None:
    """Write the file in one step: a concurrent reader finds the old content or the new."""
    new = path.with_suffix(".new")
    new.write_bytes(data)
    new.replace(path)


class MultiprocessTotals:
    """Reads the totals of all worker processes of a parent.

    Counters of processes that have ended stay in the sum, so it never goes down. `pids` returns the
    processes that live now.
    """

    def __init__(self, folder: Path, pids: Callable[[], Collection[int]]) -> None:
        self.folder = folder
        self._pids = pids
        self._ended = TotalsSnapshot()
        self._lock = threading.Lock()

    def snapshot(self) -> TotalsSnapshot:
        """Counters of all processes, gauges of the living ones; from any thread."""
        with self._lock:
            living, others = self._collect()
            return merged([self._ended, *living.values(), *others])

    def living(self) -> dict[int, TotalsSnapshot]:
        """The latest snapshot of each living process, by pid; from any thread."""
        with self._lock:
            return self._collect()[0]

    def _collect(self) -> tuple[dict[int, TotalsSnapshot], list[TotalsSnapshot]]:
        """Snapshots of living processes, and of others that ended lately or are just starting."""
        living, files = self._read()
        others = []
        for path, snapshot in files.items():
            if snapshot is living.get(snapshot.pid):
                continue
            left = counters_of(snapshot)
            if time.monotonic() - snapshot.written_at < _SURELY_ENDED:
                others.append(left)
            else:
                # Kept as one sum: over months there may be thousands.
                self._ended = merged([self._ended, left])
                path.unlink(missing_ok=True)
        return living, others

    def _read(self) -> tuple[dict[int, TotalsSnapshot], dict[Path, TotalsSnapshot]]:
        # Before the files are read: a process that is gone by then has written its last file.
        pids = self._pids()
        files = dict(_files(self.folder))
        living: dict[int, TotalsSnapshot] = {}
        for snapshot in sorted(files.values(), key=lambda each: each.written_at):
            if snapshot.pid in pids:
                # The latest: an earlier file is of another process that had the same pid.
                living[snapshot.pid] = snapshot
        return living, files


def _files(folder: Path) -> Iterator[tuple[Path, TotalsSnapshot]]:
    for path in folder.glob(f"*{_SUFFIX}"):
        # Another reader may remove it meanwhile.
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            yield path, _decode(path.read_bytes())


@contextlib.contextmanager
def temporary_totals_dir() -> Iterator[Path]:
    """A folder that only this user can read, removed at the end."""
    folder = Path(tempfile.mkdtemp(prefix="headrace-metrics-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
