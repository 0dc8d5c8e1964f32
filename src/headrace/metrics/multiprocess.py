"""Totals of several worker processes: each writes a file, and their parent adds the files up."""

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

from headrace.metrics.totals import Snapshot, Totals, of_the_past, together

log = logging.getLogger("headrace.metrics")

# Tells a worker process where to write its totals.
FOLDER = "HEADRACE_METRICS_DIR"

_EVERY = 1.0
_SUFFIX = ".totals"
# One that the parent has only just started is not known to it yet, but writes every second.
_SURELY_ENDED = 10.0

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Snapshot).decode


def taken_folder() -> Path | None:
    """Where a parent has asked this process to write. Taken out of the environment: processes that
    this one starts are not the parent's."""
    folder = os.environ.pop(FOLDER, None)
    return None if folder is None else Path(folder)


class Writer:
    """Writes the totals of this process every second from a thread of its own, so that neither a
    blocked event loop nor a store that is away keeps them back; and once more at the end."""

    def __init__(self, totals: Totals, folder: Path) -> None:
        self._totals = totals
        self._path = folder / f"{os.getpid()}-{time.time_ns()}{_SUFFIX}"
        self._parent = os.getppid()
        self._stopping = threading.Event()
        self._trouble = ""
        self._thread = threading.Thread(target=self._run, name="headrace-totals", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._stopping.set()
        self._thread.join()
        if os.getppid() != self._parent:
            # Killed, it could not tidy up.
            shutil.rmtree(self._path.parent, ignore_errors=True)

    def _run(self) -> None:
        while not self._stopping.wait(_EVERY):
            self._try()
        self._try()

    def _try(self) -> None:
        try:
            _write(self._path, _encode(self._totals.snapshot()))
        except Exception as error:
            # The parent may just be gone, and the folder with it. Whatever it is, a parent that
            # hears nothing more takes this process for dead.
            if repr(error) != self._trouble:
                log.warning("what was counted cannot be written for the metrics: %r", error)
            self._trouble = repr(error)


def _write(path: Path, data: bytes) -> None:
    """As a whole: whoever reads meanwhile finds what was there before."""
    new = path.with_suffix(".new")
    new.write_bytes(data)
    new.replace(path)


class Gathering:
    """The files of all worker processes of a parent, those that have ended too: totals never go
    down. `pids` says which processes there are now."""

    def __init__(self, folder: Path, pids: Callable[[], Collection[int]]) -> None:
        self.folder = folder
        self._pids = pids
        self._ended = Snapshot()
        self._lock = threading.Lock()

    def snapshot(self) -> Snapshot:
        """What all have counted, and what those that live hold; from any thread."""
        with self._lock:
            living, others = self._look()
            return together([self._ended, *living.values(), *others])

    def living(self) -> dict[int, Snapshot]:
        """What each process that lives has last written; from any thread."""
        with self._lock:
            return self._look()[0]

    def _look(self) -> tuple[dict[int, Snapshot], list[Snapshot]]:
        """Those that live, and what others have left that may just be starting."""
        living, files = self._read()
        others = []
        for path, snapshot in files.items():
            if snapshot is living.get(snapshot.pid):
                continue
            left = of_the_past(snapshot)
            if time.monotonic() - snapshot.written_at < _SURELY_ENDED:
                others.append(left)
            else:
                # Kept as one sum: over the months there may be thousands.
                self._ended = together([self._ended, left])
                path.unlink(missing_ok=True)
        return living, others

    def _read(self) -> tuple[dict[int, Snapshot], dict[Path, Snapshot]]:
        # Asked first: the file of one that has ended by now is its last.
        pids = self._pids()
        files = dict(_files(self.folder))
        living: dict[int, Snapshot] = {}
        for snapshot in sorted(files.values(), key=lambda each: each.written_at):
            if snapshot.pid in pids:
                # The latest: an earlier one is of another process that had this number.
                living[snapshot.pid] = snapshot
        return living, files


def _files(folder: Path) -> Iterator[tuple[Path, Snapshot]]:
    for path in folder.glob(f"*{_SUFFIX}"):
        # It may be removed meanwhile, by another reader.
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            yield path, _decode(path.read_bytes())


@contextlib.contextmanager
def shared_folder() -> Iterator[Path]:
    """A folder that only this user can read, gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="headrace-metrics-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
