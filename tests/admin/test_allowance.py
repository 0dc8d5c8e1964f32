"""How many bytes of jobs are decoded for one answer, and what is said of the rest."""

from __future__ import annotations

import json
import zlib
from typing import Any

import pytest

from headrace import Headrace
from headrace.admin import TooLargeToShow
from headrace.admin.bodies import MOST_SHOWN, allowed, arguments_of, opened
from headrace.benchmark.asgi_client import counted
from headrace.core import codec
from headrace.core.bounds import MAX_ENVELOPE_BESIDE_PAYLOAD
from headrace.core.job import ids
from headrace.core.job.envelope import Overrides, Packing, decode_envelope, encode_envelope
from headrace.core.job.parcel import Parcel
from headrace.web.rendering.export import json_list
from tests.admin.burying import bury

MIB = 1024 * 1024


def sent(id: str, size: int, task: str = "send", **overrides: Any) -> bytes:
    """An envelope whose only argument takes so many bytes."""
    text = id + "x" * (size - len(id))
    return encode_envelope(ids.to_id(id), task, codec.encode([text]), Overrides(**overrides))


def packed(id: str, size: int) -> bytes:
    data = codec.encode(["x" * size])
    overrides = Overrides(packing=Packing(len(data), "zlib"))
    return encode_envelope(ids.to_id(id), "send", zlib.compress(data), overrides)


def test_what_is_compressed_counts_with_what_it_becomes() -> None:
    small, large = packed("a", MIB), packed("b", 3 * MIB)
    assert max(len(small), len(large)) < 4096
    assert arguments_of(opened(small)) == ["x" * MIB]
    assert repr(arguments_of(opened(large))) == "(too large to show here: 3,145,734 bytes)"


def test_an_answer_decodes_no_more_than_is_allowed() -> None:
    jobs = [opened(sent(f"job-{number}", MIB)) for number in range(5)]
    with allowed(3 * MIB + 100):
        shown = [arguments_of(job) for job in jobs]
    assert [isinstance(each, list) for each in shown] == [True, True, True, False, False]
    assert all(isinstance(each, TooLargeToShow) for each in shown[3:])
    # Nothing is allowed or forbidden to whoever asks without it.
    assert all(isinstance(arguments_of(job), list) for job in jobs)


def test_a_page_of_one_job_may_look_at_it_several_times() -> None:
    job = opened(sent("job", MOST_SHOWN - 100))
    with allowed():
        assert all(isinstance(arguments_of(job), list) for _ in range(12))


def test_an_envelope_that_brings_more_than_a_sender_may_is_not_decoded() -> None:
    tags = tuple(f"tag-{number}" for number in range(50_000))
    assert opened(sent("job", 10, tags=tags)) is None
    headers = {"a": "x" * (MAX_ENVELOPE_BESIDE_PAYLOAD - 1_000)}
    data = sent("job", 3 * MIB, headers=headers)
    assert opened(data) == decode_envelope(data)


@pytest.fixture
def app(namespace: str) -> Headrace:
    return Headrace("memory://", namespace=namespace)


async def test_a_search_ends_its_page_where_no_more_may_be_decoded(app: Headrace) -> None:
    async with app:
        store = (await app.session()).store
        names = [f"job-{number:02}" for number in range(60)]
        # As large as a search decodes at most.
        sizes = 250_000
        await store.append("mail", [Parcel(ids.to_id(name), sent(name, sizes)) for name in names])
        found, cursor, pages = list[str](), "", 0
        while pages == 0 or cursor:
            with allowed():
                page = await app.admin.jobs("mail", search="xxx", scan=2_000, cursor=cursor)
            found += [job.id for job in page.jobs]
            cursor, pages = page.cursor, pages + 1
            assert page.looked < 40
        assert found == names
        assert pages > 1


async def test_a_search_in_dead_jobs_does_so_too(app: Headrace) -> None:
    async with app:
        names = [f"job-{number:02}" for number in range(60)]
        await bury(app, [sent(name, 250_000) for name in names], queue="mail")
        found, cursor, pages = set[str](), "", 0
        while pages == 0 or cursor:
            with allowed():
                page = await app.admin.dead_page("mail", search="xxx", cursor=cursor, limit=100)
            found |= {job.id for job in page.jobs}
            cursor, pages = page.cursor, pages + 1
            assert page.looked < 40
        assert found == set(names)
        assert pages > 1


async def test_an_export_has_every_row_with_all_that_one_row_may_have(app: Headrace) -> None:
    async with app:
        names = [f"job-{number:02}" for number in range(12)]
        large = [sent(name, MIB) for name in names]
        await bury(app, [*large, sent("huge", 3 * MIB)], queue="mail")
        with allowed():
            rows = await app.admin.dead("mail")
        pieces = list(json_list(rows))
        exported = {row["id"]: row["arguments"] for row in json.loads(b"".join(pieces))}
        assert set(exported) == {*names, "huge"}
        assert [len(exported[name][0]) for name in names] == [MIB] * 12
        assert exported["huge"] == "(too large to show here: 3,145,734 bytes)"
        # One at a time.
        assert len(pieces) == 14


async def test_a_redact_hook_hides_all_of_a_job_that_is_too_large_for_it(namespace: str) -> None:
    asked: list[Any] = []

    def redact(task: str, value: Any) -> Any:
        asked.append(value)
        return "***"

    async with Headrace("memory://", namespace=namespace, redact=redact) as app:
        await bury(app, [sent("huge", 3 * MIB, tags=("4929",))], queue="mail")
        (job,) = await app.admin.redacted().dead("mail")
        assert isinstance(job.arguments, TooLargeToShow)
        assert job.tags == ("(hidden)",)
        assert not any(isinstance(each, TooLargeToShow) for each in asked)


async def test_a_page_of_dead_jobs_holds_few_that_are_large(app: Headrace) -> None:
    async with app:
        names = [f"job-{number:02}" for number in range(20)]
        await bury(app, [sent(name, 4 * MIB) for name in names], queue="mail")
        store = await counted(app)
        page = await app.admin.dead_page("mail", limit=50)
        assert sum(job.size for job in page.jobs) < 72 * MIB
        found = [job.id for job in page.jobs]
        while page.cursor:
            page = await app.admin.dead_page("mail", limit=50, cursor=page.cursor)
            found += [job.id for job in page.jobs]
        assert sorted(found) == names
        # At most sixteen of these are read together.
        assert store.calls["dead"] >= 3
        assert [job.id async for job in app.admin.each_dead("mail")] == found
