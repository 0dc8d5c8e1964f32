"""References to payloads that were forged in the store lead nowhere."""

from __future__ import annotations

import re
import runpy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace import Headrace, Job, JobFailed, Offload, OffloadError, Reason, State
from headrace.client.send import offloading
from headrace.client.send.offloading import Undeleted
from headrace.core.job import ids
from headrace.core.job.envelope import Overrides, Packing, encode_envelope
from headrace.core.job.failure import PAYLOAD_TRIES
from headrace.core.job.history import History, encode_history
from headrace.core.job.parcel import Parcel
from headrace.core.topic.event import Event
from headrace.errors import ConfigError, EventError
from tests.docs.test_docs import PAGES, Block, blocks, named
from tests.docs.test_examples import EXAMPLES
from tests.worker.states import reach

SECRET = '{"text": "password of the database"}'
KEY = ids.to_text(ids.new_id())
HOSTILE = [
    "../credentials.json",
    "credentials.json",
    "",
    ".",
    "..",
    f"{KEY}/../../credentials.json",
    f"../{KEY}",
    f"{KEY}\n",
    f"{KEY}\0",
    f" {KEY}",
    KEY.upper(),
    KEY.replace("-", ""),
    f"{{{KEY}}}",
    f"urn:uuid:{KEY}",
    f"{KEY}.part",
    f"{KEY}?versionId=1",
    "../other-bucket/1",
    "a b\r\nHost: elsewhere",
    "00000000-0000-4000-8000-000000000000",
]


def forged(task: str, reference: str, misses: int = 0) -> Parcel:
    """A job, or an event, whose payload is said to be kept outside of the store."""
    job_id = ids.new_id()
    packing = Packing(len(SECRET), offloaded=True)
    envelope = encode_envelope(
        job_id,
        task,
        reference.encode(),
        Overrides(content="application/json", packing=packing),
    )
    return Parcel(job_id, envelope, history=encode_history(History(payload_misses=misses)))


async def plant(app: Headrace, *parcels: Parcel) -> list[Job[Any]]:
    await (await app.session()).store.append("default", parcels)
    return [app.job(ids.to_text(parcel.job_id)) for parcel in parcels]


class Folder:
    """Files, as one keeps them who trusts the keys. The secret is beside the folder."""

    def __init__(self, path: Path) -> None:
        self.secret = path / "credentials.json"
        self.secret.write_text(SECRET)
        self.inside = path / "payloads"
        self.inside.mkdir()
        (self.inside / "credentials.json").write_text(SECRET)
        self.asked: list[str] = []

    def put(self, key: str, data: bytes) -> None:
        (self.inside / key).write_bytes(data)

    def get(self, key: str) -> bytes:
        self.asked.append(key)
        return (self.inside / key).read_bytes()

    def delete(self, key: str) -> None:
        self.asked.append(key)
        (self.inside / key).unlink(missing_ok=True)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    path = tmp_path / "files"
    path.mkdir()
    return Folder(path)


async def test_a_forged_reference_neither_reads_nor_deletes_a_file(
    app: Headrace, folder: Folder, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task(codec="json", offload=Offload(folder.put, folder.get, folder.delete))
    async def echo(text: str) -> str:
        return text

    jobs = await plant(app, *(forged("echo", reference) for reference in HOSTILE))
    async with app.worker():
        await reach(jobs, State.SCHEDULED, State.DONE)
    assert folder.asked == []
    assert "'../credentials.json': it is no key that Headrace gives" in caplog.text
    assert "Offload(accept=…)" in caplog.text


async def test_a_dead_job_with_a_forged_reference_is_purged_and_no_file_with_it(
    app: Headrace, folder: Folder, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task(codec="json", offload=Offload(folder.put, folder.get, folder.delete))
    async def echo(text: str) -> str:
        return text

    (job,) = await plant(app, forged("echo", "../credentials.json", PAYLOAD_TRIES - 1))
    async with app.worker():
        with pytest.raises(JobFailed, match=r"is no key that Headrace gives.*accept=") as failed:
            await job.result(timeout=30)
    assert failed.value.reason == Reason.PAYLOAD_UNAVAILABLE
    assert await app.admin.purge([job.id]) == 1
    assert folder.asked == []
    assert folder.secret.read_text() == SECRET
    assert "the payload '../credentials.json' was not deleted: it is no key" in caplog.text


async def test_an_event_with_a_forged_reference_is_not_read(app: Headrace, folder: Folder) -> None:
    scans = app.topic("scans", str, codec="json", offload=Offload(folder.put, folder.get))
    await scans.publish("a")
    store = (await app.session()).store
    await store.publish("@scans", [forged("@scans", "../credentials.json")])
    read: list[Event[str]] = await scans.read()
    with pytest.raises(EventError, match="is kept outside of the store"):
        _ = read[1].data
    assert folder.asked == []


async def test_who_gives_keys_of_its_own_says_which_are_valid(
    app: Headrace, tmp_path: Path
) -> None:
    kept: dict[str, bytes] = {}
    asked: list[str] = []

    def put(key: str, data: bytes) -> str:
        kept[f"scans/{key}"] = data
        return f"scans/{key}"

    def get(key: str) -> bytes:
        asked.append(key)
        return kept[key]

    async def count(text: str) -> int:
        return len(text)

    own = re.compile("scans/[0-9a-f-]{36}").fullmatch
    task = app.task(offload=Offload(put, get, kept.pop, threshold=10, accept=own))(count)
    job = await task.enqueue("a" * 100)
    (key,) = kept
    bad = await plant(app, *(forged("count", reference) for reference in [*HOSTILE, KEY]))
    async with app.worker():
        assert await job.result(timeout=30) == 100
        await reach(bad, State.SCHEDULED)
    assert (asked, kept) == ([key], {})


async def test_a_key_that_would_not_be_accepted_is_not_sent(app: Headrace) -> None:
    def own(key: str, data: bytes) -> str:
        return f"scans/{key}"

    def same(key: str, data: bytes) -> str:
        return key

    def get(key: str) -> bytes:
        raise AssertionError(key)

    async def count(text: str) -> int:
        return len(text)

    names = Offload(own, get, threshold=10)
    refused = app.task(name="refused", offload=names)(count)
    with pytest.raises(OffloadError, match=r"put returned 'scans/.*is no key that Headrace gives"):
        await refused.enqueue("a" * 100)
    away = Offload(same, get, threshold=10, accept=lambda key: key.startswith("scans/"))
    strict = app.task(name="strict", offload=away)(count)
    with pytest.raises(OffloadError, match=r"Offload\(accept=\) does not accept"):
        await strict.enqueue("a" * 100)
    fine = app.task(name="fine", offload=Offload(same, get, threshold=10))(count)
    assert await (await fine.enqueue("a" * 100)).status() == State.WAITING


@pytest.mark.parametrize("answer", [False, None, 0, ""])
async def test_nothing_is_accepted_that_accept_does_not_accept(answer: object) -> None:
    offload = Offload(_put, _get, _get, accept=lambda key: answer)
    left: list[Undeleted] = []
    await offloading.discard(offload, [forged("echo", KEY).envelope], left.append)
    assert [each.problem for each in left] == ["Offload(accept=) does not accept it as a key"]


async def test_nothing_is_accepted_while_accept_fails() -> None:
    def fails(key: str) -> bool:
        raise KeyError(key)

    offload = Offload(_put, _get, _get, accept=fails)
    left: list[Undeleted] = []
    await offloading.discard(offload, [forged("echo", KEY).envelope], left.append)
    assert left[0].problem == f"Offload(accept=) failed over it: KeyError: '{KEY}'"


class Later:
    async def __call__(self, key: str) -> bool:
        return False


async def test_a_coroutine_is_no_answer() -> None:
    async def later(key: str) -> bool:
        return False

    with pytest.raises(ConfigError, match=r"Offload\(accept=\) must be a plain function"):
        Offload(_put, _get, accept=later)
    left: list[Undeleted] = []
    offload = Offload(_put, _get, _get, accept=Later())
    await offloading.discard(offload, [forged("echo", KEY).envelope], left.append)
    assert "a plain function that answers at once" in left[0].problem


def _put(key: str, data: bytes) -> None:
    raise AssertionError(key)


def _get(key: str) -> bytes:
    raise AssertionError(key)


# The programs that we show.

OFFLOADS = re.compile(r"\bOffload\(\w")
SHOWN = [
    *(
        pytest.param(page, block, id=f"{named(page)}:{block.first}")
        for page in PAGES
        for block in blocks(page)
        if block.language == "python" and OFFLOADS.search(block.text)
    ),
    *(
        pytest.param(example, None, id=example.name)
        for example in EXAMPLES
        if OFFLOADS.search(example.read_text())
    ),
]


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Runs a page up to a block, or an example, without its `main`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HEADRACE_URL", raising=False)
    run: list[dict[str, Any]] = []

    def start(file: Path, block: Block | None) -> dict[str, Any]:
        if block is not None:
            earlier = [each for each in blocks(file) if each.first <= block.first]
            text = "".join(each.text for each in earlier if each.language == "python")
            file = tmp_path / "page.py"
            file.write_text(text)
        run.append(runpy.run_path(str(file)))
        return run[-1]

    yield start
    for names in run:
        if "server" in names:
            names["server"].shutdown()
            names["server"].server_close()
        if "directory" in names:
            names["directory"].cleanup()


@pytest.mark.parametrize(("file", "block"), SHOWN)
async def test_what_we_show_asks_for_no_forged_reference(
    file: Path, block: Block | None, programs: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = programs(file, block)
    asked: list[str] = []
    attacked = 0
    for app in {id(it): it for it in names.values() if isinstance(it, Headrace)}.values():
        tasks = [task for task in app.tasks.values() if task.offload is not None]
        for task in tasks:
            for name in ("get", "delete"):
                monkeypatch.setattr(task.offload, name, asked.append)
        parcels = [forged(task.name, reference) for task in tasks for reference in HOSTILE]
        async with app:
            jobs = await plant(app, *parcels) if parcels else []
            async with app.worker():
                await reach(jobs, State.SCHEDULED, State.DONE, State.DEAD)
        attacked += len(jobs)
    assert attacked
    assert asked == []


def test_files_and_a_bucket_are_among_what_is_attacked() -> None:
    assert {param.id for param in SHOWN} >= {"offload.py"}
    assert any(str(param.id).startswith("docs/payloads.md") for param in SHOWN)
