"""What each page, export and command takes: a program, whose memory is its own.

    python -m tests.budget.measuring URL NAMESPACE FOLDER < things to measure > figures

A thing is a list: a page with its query, or a command with its arguments.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import json
import os
import re
import sys
import time
from collections.abc import AsyncIterator, Iterator, MutableMapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO
from urllib.parse import urlencode

from headrace import Headrace, dashboard
from headrace.cli import main

TOKEN = "the token of this machine's user"


@dataclass
class Figures:
    """What one thing took."""

    what: str
    status: int = 0
    """Of the answer, or of the command."""
    length: int = 0
    """Bytes of what was sent or printed."""
    seconds: float = 0.0
    """Of the processor."""
    longest: float = 0.0
    """Seconds for which it kept the loop from everything else."""
    peak: int = 0
    """MiB of memory beyond those before."""


def _memory(which: str) -> int:
    found = re.search(rf"{which}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found
    return int(found[1]) // 1024


@contextlib.contextmanager
def measured(what: str) -> Iterator[Figures]:
    # What was freed goes back, and the highest mark begins anew.
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    before, began, figures = _memory("VmRSS"), time.process_time(), Figures(what)
    yield figures
    figures.seconds = round(time.process_time() - began, 2)
    figures.peak = _memory("VmHWM") - before


async def _page(site: Any, path: str, query: dict[str, str]) -> Figures:
    with measured(f"{path} {query}") as figures:
        async with _watched(figures):
            await _answered(site, path, query, figures)
    return figures


async def _answered(site: Any, path: str, query: dict[str, str], figures: Figures) -> None:
    """Ask as a server does; what is sent is counted and forgotten."""
    gone = asyncio.Event()
    asked = False

    async def receive() -> dict[str, Any]:
        nonlocal asked
        if asked:
            await gone.wait()
            return {"type": "http.disconnect"}
        asked = True
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: MutableMapping[str, Any]) -> None:
        figures.status = message.get("status", figures.status)
        figures.length += len(message.get("body", b""))

    headers = {"host": "127.0.0.1:8370", "accept": "text/html", "authorization": f"Bearer {TOKEN}"}
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": urlencode(query).encode(),
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 50_000),
        "server": ("127.0.0.1", 8370),
    }
    await site(scope, receive, send)


@contextlib.asynccontextmanager
async def _watched(figures: Figures) -> AsyncIterator[None]:
    """Note for how long the loop did nothing else at most."""

    async def watch() -> None:
        while True:
            began = time.process_time()
            await asyncio.sleep(0)
            figures.longest = max(figures.longest, round(time.process_time() - began, 2))

    watching = asyncio.create_task(watch())
    try:
        yield
    finally:
        watching.cancel()


async def pages(
    url: str, namespace: str, asked: list[tuple[str, dict[str, str]]], out: TextIO
) -> None:
    async with Headrace(url, namespace=namespace) as app:
        site = dashboard(app, token=TOKEN)
        # The first one imports and compiles.
        await _page(site, "/workers", {})
        for path, query in asked:
            print(json.dumps(asdict(await _page(site, path, query))), file=out, flush=True)


def command(words: list[str], folder: Path) -> Figures:
    """What a command prints goes into a file, which takes no memory."""
    output = folder / "output"
    with (
        measured(" ".join(words)) as figures,
        output.open("w") as file,
        contextlib.redirect_stdout(file),
        contextlib.redirect_stderr(file),
    ):
        try:
            main.main(words)
        except SystemExit as ended:
            figures.status = int(ended.code or 0)
    figures.length = output.stat().st_size
    if "Traceback" in output.read_text()[:100_000]:
        figures.status = 70
    return figures


def run() -> None:
    (url, namespace), folder, given = sys.argv[1:3], Path(sys.argv[3]), json.load(sys.stdin)
    os.environ |= {"HEADRACE_URL": url, "HEADRACE_NAMESPACE": namespace}
    os.chdir(folder)
    out = sys.stdout
    gc.freeze()
    asyncio.run(pages(url, namespace, given["pages"], out))
    for words in given["commands"]:
        print(json.dumps(asdict(command(words, folder))), file=out, flush=True)


if __name__ == "__main__":
    run()
