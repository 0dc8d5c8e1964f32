"""What a hook hides is in no answer of an admin that is redacted, on every store."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec
import pytest

from headrace import ArgumentError, ConfigError, Headrace, Retry
from headrace.admin import Admin
from headrace.core.masking import Masks
from tests.admin.burying import bury, envelope, one_attempt
from tests.vault import CARD, Payment, Vault, hide, leaks


@pytest.fixture
async def filled(app: Headrace) -> tuple[Admin, dict[str, str]]:
    app.redact = hide
    ids = await Vault(app).fill()
    return app.admin.redacted(), ids


async def answers(admin: Admin, ids: dict[str, str]) -> AsyncIterator[tuple[str, Any]]:
    """All that can be asked of an admin, by name."""
    for state in (None, "dead", "blocked", "scheduled", "waiting"):
        yield f"jobs {state}", (await admin.jobs(state=state)).jobs
        yield f"group {state}", (await admin.jobs("ledger@orders", state=state)).jobs
    for what, id in ids.items():
        yield f"job {what}", await admin.job(id)
        yield f"why {what}", await admin.why(id)
        yield f"log {what}", await admin.log(id)
        if not what.startswith(("event", "behind")):
            yield f"flow {what}", await admin.flow(id)
    dead = await admin.dead()
    yield "dead", dead
    yield "dead page", (await admin.dead_page()).jobs
    yield "latest dead", await admin.latest_dead(["cards", "ledger@orders"])
    for each in dead:
        one = await admin.dead_job(each.id, each.queue)
        yield "dead job", (one.arguments, one.event, one.error_text, one.attempts)
    yield "read", await admin.read("orders")
    yield "stopped", await admin.stopped_keys("orders", "ledger")
    for queue in ("cards", "ledger@orders"):
        yield f"events {queue}", [each async for each in admin.events(queue)]
    yield "queues", await admin.queues()
    yield "topics", await admin.topics()
    yield "stats", await admin.stats(5)
    yield "actions", await admin.actions()


def written(answer: Any) -> str:
    """As pages and tables write it, and as JSON does."""
    found = answer if isinstance(answer, list) else [answer]
    plain = [asdict(each) if hasattr(each, "__dataclass_fields__") else each for each in found]
    return repr(found) + repr(plain) + msgspec.json.encode(plain, enc_hook=repr).decode()


async def test_what_is_hidden_is_in_no_answer(filled: tuple[Admin, dict[str, str]]) -> None:
    admin, ids = filled
    async for what, answer in answers(admin, ids):
        assert not leaks(written(answer)), what


async def test_who_may_see_all_sees_it(app: Headrace, filled: tuple[Admin, dict[str, str]]) -> None:
    _, ids = filled
    shown = {what: leaks(written(it)) async for what, it in answers(app.admin, ids)}
    named = ("jobs dead", "job dead", "why event", "log done", "job lane", "why lane", "dead")
    for what in (*named, "job event", "read", "stopped", "job done"):
        assert shown[what], f"{what}: the test would prove nothing"


async def test_the_rest_of_what_is_said_is_left(filled: tuple[Admin, dict[str, str]]) -> None:
    admin, ids = filled
    job = await admin.job(ids["dead"])
    assert job.task == "charge"
    assert job.arguments == {"payment": {"card": "***", "note": "***", "amount": 1}}
    assert job.error is not None
    assert "2 validation errors for Payment" in job.error
    assert job.once == ("charge***",)
    assert job.log == ("charging ***",)
    assert job.headers == {"x-card": "***"}


async def test_names_that_stand_for_others_tell_the_same_from_another(
    app: Headrace, filled: tuple[Admin, dict[str, str]]
) -> None:
    admin, ids = filled
    one, other = await admin.job(ids["waiting"]), await admin.job(ids["lane"])
    assert one.key is not None
    assert one.key == other.key
    assert one.lane == f"key:{one.key}"
    assert (await app.admin.job(ids["lane"])).key == f"k-{CARD}"


async def test_a_name_stands_for_another_on_all_pages_and_by_a_secret_of_the_store(
    app: Headrace, filled: tuple[Admin, dict[str, str]]
) -> None:
    _, ids = filled
    # As several processes would that show something for the first time.
    admins = [app.admin.redacted() for _ in range(5)]
    jobs = await asyncio.gather(*(admin.job(ids["lane"]) for admin in admins))
    assert len({job.key for job in jobs}) == 1
    store = (await app.session()).store
    (secret,) = (await store.kv_all("redaction")).values()
    assert len(secret) == 32
    await store.kv_set("redaction", "salt", bytes(32))
    assert (await app.admin.redacted().job(ids["lane"])).key != jobs[0].key


async def test_a_name_stands_for_another_after_a_restart_too(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    async with Headrace(url, redact=hide) as app:
        ids = await Vault(app).fill()
        shown = (await app.admin.redacted().job(ids["lane"])).key
    async with Headrace(url, redact=hide) as app:
        assert (await app.admin.redacted().job(ids["lane"])).key == shown


async def test_where_no_secret_can_be_kept_names_are_replaced_in_this_process() -> None:
    app = Headrace("memory://", redact=hide)

    @app.task
    async def charge(card: str) -> None: ...

    async with app.testing() as kit:
        job = await charge.options(key=f"k-{CARD}").enqueue(CARD)
        names = set()
        for _ in range(2):
            # As a store that is full, or whose user may only read.
            kit.fail("kv_set")
            names.add((await app.admin.redacted().job(job.id)).key)
        assert len(names) == 1
        assert not leaks(repr(names))
        assert await app.store.kv_all("redaction") == {}


async def test_a_secret_that_is_none_is_not_used(
    app: Headrace, filled: tuple[Admin, dict[str, str]]
) -> None:
    _, ids = filled
    store = (await app.session()).store
    names = set()
    for odd in (b"", b"1"):
        await store.kv_set("redaction", "salt", odd)
        names.add((await app.admin.redacted().job(ids["lane"])).key)
    assert len(names) == 1
    assert Masks([CARD], salt=b"1").name(f"k-{CARD}") not in names


async def test_a_key_is_freed_by_the_name_that_is_shown(
    filled: tuple[Admin, dict[str, str]], caplog: pytest.LogCaptureFixture
) -> None:
    admin, _ = filled
    (stopped,) = await admin.stopped_keys("orders", "ledger")
    with caplog.at_level(logging.INFO, "headrace.actions"):
        assert await admin.by("ann").free_key("orders", "ledger", stopped.key)
        assert not await admin.by("ann").free_key("orders", "ledger", f"k-{CARD}")
    assert await admin.stopped_keys("orders", "ledger") == []
    assert not leaks(caplog.text)
    assert not leaks(repr(await admin.actions()))
    assert stopped.key in caplog.text


async def test_a_search_finds_only_what_is_shown(
    app: Headrace, filled: tuple[Admin, dict[str, str]]
) -> None:
    admin, ids = filled
    assert (await app.admin.jobs(search="s3cr3t")).jobs
    assert await app.admin.dead(search="s3cr3t")
    assert await app.admin.dead(error="s3cr3t")
    assert not (await admin.jobs(search="s3cr3t")).jobs
    assert not (await admin.jobs(state="dead", search="s3cr3t")).jobs
    assert not await admin.dead(search="s3cr3t")
    assert not await admin.dead(error="s3cr3t")
    assert ids["dead"] in [each.id for each in await admin.dead(search="validation error")]


async def test_a_hidden_tag_is_found_by_what_is_shown_of_it_alone(
    filled: tuple[Admin, dict[str, str]],
) -> None:
    admin, ids = filled
    assert (await admin.jobs(tag=f"card:{CARD}")).jobs == []
    assert await admin.dead(tag=f"card:{CARD}") == []
    found = (await admin.jobs(tag="card:***")).jobs
    assert {job.id for job in found} == {ids["waiting"], ids["lane"], ids["scheduled"]}
    assert [job.tags for job in await admin.dead(tag="card:***")] == [("card:***",)]


async def test_dead_jobs_are_grouped_and_chosen_by_the_type_that_is_shown(
    filled: tuple[Admin, dict[str, str]],
) -> None:
    admin, ids = filled
    groups = (await admin.dead_groups("ledger@orders")).groups
    (shown,) = [group for group in groups if "NoAccount" in group.error_type]
    assert shown.error_type == "tests.vault.NoAccount_***"
    assert await admin.dead(error_type=f"tests.vault.NoAccount_{CARD}") == []
    (chosen,) = await admin.dead(error_type=shown.error_type, place=shown.place)
    assert chosen.id == ids["event"]


async def test_what_someone_searched_for_is_not_recorded(
    app: Headrace, filled: tuple[Admin, dict[str, str]]
) -> None:
    await app.admin.by("ann").replay(search=CARD)
    await app.admin.by("ann").purge(error=CARD)
    await app.admin.by("ann").purge(error_type=f"NoAccount_{CARD}")
    await app.admin.by("ann").cancel(tag=f"card:{CARD}")
    assert not leaks(repr(await app.admin.actions()))


async def test_arguments_that_do_not_fit_are_not_quoted(
    filled: tuple[Admin, dict[str, str]],
) -> None:
    admin, ids = filled
    with pytest.raises(ArgumentError) as refused:
        await admin.by("ann").replay(
            ids["dead"], edit=lambda given: {"payment": {**given["payment"], "amount": CARD}}
        )
    assert not leaks(str(refused.value))
    assert not leaks(repr(await admin.actions()))


async def test_records_quote_nothing_that_is_hidden_whoever_acts(
    app: Headrace, filled: tuple[Admin, dict[str, str]]
) -> None:
    _, ids = filled
    with pytest.raises(ArgumentError):
        await app.admin.by("a program").replay(
            ids["dead"], edit=lambda given: {"payment": {**given["payment"], "amount": CARD}}
        )
    assert not leaks(repr(await app.admin.actions()))


async def test_a_running_job_is_followed_without_what_is_hidden(app: Headrace) -> None:
    app.redact = hide
    vault = Vault(app)
    async with app.worker(), asyncio.timeout(60):
        job = await vault.charge.enqueue(Payment(card=CARD, note="hold"))
        await vault.started.wait()
        found = []
        async for update in app.admin.redacted().watch(job.id):
            found.append(update)
            if update.lines:
                vault.go.set()
    assert any(update.lines for update in found)
    assert not leaks(repr(found))


async def test_nothing_is_shown_if_the_hook_fails(
    app: Headrace, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(task: str, value: Any) -> Any:
        raise KeyError(value)

    app.redact = fail
    (id,) = await bury(app, [envelope("send", CARD)], history=one_attempt(f"no {CARD}"))
    admin = app.admin.redacted()
    job = await admin.job(id)
    assert job.arguments == "(hidden: redact failed)"
    assert not leaks(repr(job))
    assert not leaks(repr((await admin.dead_job(id)).attempts))
    assert not leaks(caplog.text)
    assert "redact failed for a job of task 'send' (KeyError)" in caplog.text


async def test_of_bytes_that_are_no_job_nothing_is_shown(app: Headrace) -> None:
    app.redact = hide
    (id,) = await bury(app, [b"\xc1" + CARD.encode()], history=one_attempt(f"no {CARD}"))
    dead = await app.admin.redacted().dead_job(id)
    assert dead.arguments is None
    assert not leaks(repr(dead.attempts))


async def test_hooks_of_the_app_and_of_the_dashboard_both_hide(app: Headrace) -> None:
    app.redact = lambda task, value: {**value, "a": "-"} if isinstance(value, dict) else value

    @app.task(retry=Retry(1), name="both")
    async def both(a: str, b: str) -> None: ...

    job = await both.enqueue("first-secret", "second-secret")
    assert (await app.admin.job(job.id)).arguments == {
        "a": "first-secret",
        "b": "second-secret",
    }

    def more(task: str, value: Any) -> Any:
        return {**value, "b": "-"} if isinstance(value, dict) else value

    found = await app.admin.redacted(more).job(job.id)
    assert found.arguments == {"a": "-", "b": "-"}


async def test_without_a_hook_nothing_is_hidden(app: Headrace) -> None:
    assert not app.admin.redacted().is_redacted


@pytest.mark.parametrize("given", ["hide", "a b:c", 3, ""])
def test_a_hook_that_is_none_is_refused(given: Any) -> None:
    with pytest.raises(ConfigError, match="redact"):
        Headrace("memory://", redact=given)


def test_a_hook_is_named_by_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_REDACT", "tests.vault:hide")
    app = Headrace("memory://")
    assert app.admin.redacted().is_redacted
    monkeypatch.setenv("HEADRACE_REDACT", "tests.vault:nothing")
    with pytest.raises(ConfigError, match=r"tests\.vault:nothing"):
        Headrace("memory://").admin.redacted()


@pytest.mark.parametrize("name", ["digest", "mail:digest"])
async def test_the_key_of_a_batch_is_hidden_with_the_arguments_it_is_made_of(
    app: Headrace, name: str
) -> None:
    @app.task(name=name, batch=5, batch_key="cards", max_wait=3600)
    async def digest(cards: list[str]) -> None: ...

    app.redact = lambda _, value: {"cards": "***"} if isinstance(value, dict) else value
    jobs = [await digest.enqueue(CARD) for _ in range(2)]
    admin = app.admin.redacted()
    listed = (await admin.jobs(state="blocked")).jobs
    shown = {each.waits_for for each in listed}
    # By another name, the same for both.
    assert len(listed) == 2
    assert len(shown) == 1
    assert "it gathers with 1 other of key " in await admin.why(jobs[0].id)
    events = [each async for each in admin.events("default")]
    assert CARD not in written([listed, events, await admin.why(jobs[0].id)])
    assert CARD not in written(await admin.job(jobs[0].id))
    assert CARD in written(await app.admin.job(jobs[0].id))


async def test_a_renamed_argument_is_hidden_in_older_jobs_too(app: Headrace) -> None:
    @app.task(name="charge")
    async def older(card: str) -> None: ...

    job = await older.enqueue("secret")
    newer = Headrace("memory://", redact=lambda task, value: {**value, "number": "-"})

    @newer.task(name="charge", renamed_arguments={"card": "number"})
    async def charge(number: str) -> None: ...

    app.redact, app.tasks = newer.redact, newer.tasks
    assert (await app.admin.redacted().job(job.id)).arguments == {"number": "-"}
