"""`app.admin.replay(edit=)`: dead jobs with other arguments."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

import msgspec
import pytest

from headrace import (
    ArgumentError,
    ConfigError,
    Context,
    Headrace,
    JobFailed,
    PayloadTooLarge,
    Reject,
    Retry,
    State,
    chain,
)
from headrace.admin.dead.dead_info import PAGE
from headrace.admin.dead.edited_arguments import EditedArguments
from headrace.core.job.envelope import encode_envelope
from tests.admin.burying import bury, envelope


@dataclass
class Address:
    street: str
    since: date


async def arguments(app: Headrace, id: str) -> Any:
    return (await app.admin.job(id)).arguments


async def test_an_edited_job_runs_with_its_new_arguments(app: Headrace) -> None:
    ran: list[tuple[str, int]] = []

    @app.task(retry=Retry(1))
    async def send(ctx: Context, to: str, times: int = 1) -> None:
        if to == "nobody":
            raise Reject("there is no such person")
        ran.append((to, times))

    async with app.worker():
        job = await send.options(key="k", priority=3, headers={"a": "b"}).enqueue("nobody", 2)
        async for _ in job.watch(poll=0.05):
            pass
        assert await app.admin.replay(job.id, edit={"to": "ann"}) == 1
        await job.result(timeout=10)
    assert ran == [("ann", 2)]


async def test_all_but_the_arguments_stays_as_it_was(app: Headrace) -> None:
    @app.task
    async def send(to: str) -> None: ...

    newer = msgspec.msgpack.encode(
        [1, b"=mail-1", "send", msgspec.msgpack.encode(["bob"]), {"h": {"a": "b"}}, "new field"]
    )
    await bury(app, [newer])
    assert await app.admin.replay("mail-1", edit={"to": "ann"}) == 1
    (seen,) = await (await app.session()).store.get("default", [b"=mail-1"], bodies=True)
    assert seen
    assert msgspec.msgpack.decode(seen.envelope)[4:] == [{"h": {"a": "b"}}, "new field"]
    info = await app.admin.job("mail-1")
    assert (info.arguments, info.headers) == ({"to": "ann"}, {"a": "b"})
    assert [attempt.error for attempt in info.attempts] == ["ValueError: no such user"]


async def test_an_edit_may_be_a_function_of_the_arguments(app: Headrace) -> None:
    @app.task
    async def send(to: str, times: int = 1) -> None: ...

    ids = await bury(app, [envelope("send", "ann", 2), envelope("send", "bob", 5)])
    seen: list[dict[str, Any]] = []

    def double(given: dict[str, Any]) -> Mapping[str, Any]:
        seen.append(dict(given))
        return {**given, "times": given["times"] * 2}

    assert await app.admin.replay(task="send", edit=double) == 2
    assert [await arguments(app, id) for id in ids] == [
        {"to": "ann", "times": 4},
        {"to": "bob", "times": 10},
    ]
    assert {"to": "ann", "times": 2} in seen


async def test_values_of_all_types_may_be_given(app: Headrace) -> None:
    @app.task
    async def move(to: Address, *, note: str = "") -> None: ...

    old = {"street": "Long Lane", "since": "2020-01-01"}
    (id,) = await bury(app, [envelope("move", old)])
    new = Address("Short Street", date(2026, 1, 2))
    assert await app.admin.replay(id, edit={"to": new, "note": "hurry"}) == 1
    assert await arguments(app, id) == {
        "to": {"street": "Short Street", "since": "2026-01-02"},
        "note": "hurry",
    }


async def test_arguments_that_did_not_fit_can_be_mended(app: Headrace) -> None:
    @app.task
    async def send(to: str, times: int) -> None: ...

    wrong, missing = await bury(
        app, [envelope("send", "ann", "two"), envelope("send", "bob")], reason="bad_arguments"
    )
    assert await app.admin.replay([wrong, missing], edit={"times": 2}) == 2
    assert await arguments(app, wrong) == {"to": "ann", "times": 2}
    assert await arguments(app, missing) == {"to": "bob", "times": 2}


async def test_functions_that_take_anything_can_be_edited(app: Headrace) -> None:
    @app.task
    async def send(to: str, *rest: int, **more: str) -> None: ...

    given = msgspec.msgpack.encode({"to": "ann", "*": [1, 2], "a": "b"})
    (id,) = await bury(app, [encode_envelope(b"=one", "send", given)])
    edit = {"to": "bob", "rest": (3,), "c": "d"}
    assert await app.admin.replay(id, edit=edit) == 1
    assert await arguments(app, id) == {"to": "bob", "*": [3], "a": "b", "c": "d"}


def test_arguments_are_edited_by_the_parameters_of_now() -> None:
    app = Headrace("memory://")

    @app.task
    async def named(a: int, **k: int) -> None: ...

    @app.task
    async def placed(a: int = 1, b: int = 2, /, **k: int) -> None: ...

    @app.task
    async def many(*r: int) -> None: ...

    @app.task(unknown_arguments="ignore")
    async def ignoring(a: int, *gone: int) -> None: ...

    @app.task
    async def refusing(a: int) -> None: ...

    decode, seen = msgspec.msgpack.decode, list[Any]()

    def edited(task: Any, given: Any, edit: Any, *, is_fed: bool = False) -> Any:
        held = EditedArguments("one", task, is_fed=is_fed)
        payload = msgspec.msgpack.encode(given)
        new = held.edited(payload, decode, edit, lambda task, old, new: seen.append((old, new)))
        return decode(new)

    assert edited(named, {"a": 1, "k": 5}, {"a": 2}) == {"a": 2, "k": 5}
    assert edited(placed, {"b": 5}, {"b": 6}) == {"a": 1, "b": 6}
    assert edited(many, {"*": [2]}, {"r": [3]}, is_fed=True) == {"*": [3]}
    del seen[:]
    assert edited(ignoring, {"a": 1, "gone": 5}, {"a": 2}) == {"a": 2}
    assert seen == [({"a": 1, "gone": 5}, {"a": 2})]
    with pytest.raises(ArgumentError, match=r"there is no argument 'gone'.*can leave it out"):
        edited(refusing, {"a": 1, "gone": 5}, {"a": 2})
    assert edited(refusing, {"a": 1, "gone": 5}, lambda old: {"a": old["gone"]}) == {"a": 5}


@pytest.mark.parametrize(
    ("edit", "takes"),
    [
        ({"args": 5}, "takes a list of values, not 5"),
        ({"args": "abc"}, "takes a list of values, not 'abc'"),
        ({"kwargs": 5}, "takes a mapping from names to values, not 5"),
        ({"kwargs": 5, "to": "ann"}, "takes a mapping from names to values, not 5"),
        ({"kwargs": {7: "ann"}}, "takes a mapping from names to values, not {7: 'ann'}"),
    ],
)
async def test_the_rest_of_the_arguments_must_be_several(
    app: Headrace, edit: dict[str, Any], takes: str
) -> None:
    @app.task
    async def anything(*args: Any, **kwargs: Any) -> None: ...

    (id,) = await bury(app, [encode_envelope(b"=one", "anything", b"\x80")])
    with pytest.raises(ArgumentError, match=re.escape(takes)):
        await app.admin.replay(id, edit=edit)


async def test_the_context_cannot_be_edited_in(app: Headrace) -> None:
    @app.task
    async def send(ctx: Context, to: str, **more: int) -> None: ...

    with pytest.raises(ArgumentError, match="argument 'ctx' is filled in"):
        await send.enqueue("ann", ctx=5)  # type: ignore[call-overload]
    given = msgspec.msgpack.encode({"to": "ann", "a": 1})
    (id,) = await bury(app, [encode_envelope(b"=one", "send", given)])
    with pytest.raises(ArgumentError, match="argument 'ctx' is filled in") as caught:
        await app.admin.replay(id, edit={"ctx": 1})
    assert caught.value.argument == "ctx"
    assert [job.id for job in await app.admin.dead()] == [id]


@pytest.mark.parametrize(
    ("edit", "argument"),
    [
        ({"times": "two"}, "argument 'times'"),
        ({"tiems": 2}, "no argument 'tiems'"),
        ({"to": object()}, "argument 'to' cannot travel"),
        (lambda given: {"times": 2}, "'to'"),
    ],
)
async def test_an_edit_that_does_not_fit_names_job_and_argument_and_sends_nothing(
    app: Headrace, edit: Any, argument: str
) -> None:
    @app.task
    async def send(to: str, times: int = 1) -> None: ...

    ids = await bury(app, [envelope("send", "ann"), envelope("send", "bob")])
    for chosen in ({"ids": ids}, {"task": "send"}):
        with pytest.raises(ArgumentError, match=argument) as caught:
            await app.admin.replay(**chosen, edit=edit)
        assert any(id in str(caught.value) for id in ids)
        assert caught.value.task == "send"
    assert (await app.admin.queue("default")).dead == 2


async def test_nothing_is_sent_if_one_of_many_does_not_fit(app: Headrace) -> None:
    @app.task
    async def send(to: str, times: int = 1) -> None: ...

    (bad,) = await bury(app, [envelope("send", 5)])
    await bury(app, [envelope("send", "ann") for _ in range(PAGE + 5)])
    with pytest.raises(ArgumentError, match=f"{bad}: argument 'to'"):
        await app.admin.replay(queue="default", edit={"times": 2})
    info = await app.admin.queue("default")
    assert (info.dead, info.waiting) == (PAGE + 6, 0)


async def test_what_cannot_be_edited_is_named(app: Headrace) -> None:
    @app.task
    async def send(to: str) -> None: ...

    @app.task
    async def join(words: str) -> None: ...

    (gone,) = await bury(app, [envelope("gone", 1)])
    (long,) = await bury(app, [envelope("send", "ann", 2, 3)])
    with pytest.raises(ConfigError, match=f"{gone} cannot be edited.*no task 'gone'"):
        await app.admin.replay(gone, edit={"to": "x"})
    with pytest.raises(ArgumentError, match=f"{long}.*do not fit send"):
        await app.admin.replay(long, edit={"to": "x"})
    with pytest.raises(ConfigError, match="edit must"):
        await app.admin.replay(long, edit=5)  # type: ignore[arg-type]
    (fine,) = await bury(app, [envelope("send", "ann")])

    def forgetful(given: dict[str, Any]) -> None: ...

    with pytest.raises(ConfigError, match="must return a mapping"):
        await app.admin.replay(fine, edit=forgetful)  # type: ignore[arg-type]
    assert (await app.admin.queue("default")).dead == 3


async def test_what_a_job_gets_from_others_cannot_be_edited(app: Headrace) -> None:
    from headrace.core.job.envelope import Overrides

    @app.task
    async def join(words: str) -> None: ...

    fed = encode_envelope(b"=fed", "join", b"\x90", Overrides(flow=b"=fed", feed="one"))
    await bury(app, [fed])
    with pytest.raises(ConfigError, match="fed cannot be edited: its first argument comes from"):
        await app.admin.replay("fed", edit={"words": "x"})


async def test_the_other_arguments_of_a_job_fed_by_others_can_be_edited(app: Headrace) -> None:
    @app.task
    async def give() -> list[int]:
        return [1, 2]

    @app.task(retry=Retry(1))
    async def add(ctx: Context, numbers: list[int], plus: int, *, name: str = "sum") -> str:
        if plus < 0:
            raise Reject("too small")
        return f"{name}: {sum(numbers) + plus}"

    flow = await app.enqueue(chain(give.call(), add.call(plus=-1)))
    async with app.worker():
        with pytest.raises(JobFailed, match="too small"):
            await flow.result(timeout=20)
        with pytest.raises(ConfigError, match="its first argument comes from"):
            await app.admin.replay(flow.id, edit={"numbers": [3], "plus": 1})
        with pytest.raises(ArgumentError, match="plus"):
            await app.admin.replay(flow.id, edit={"plus": "one"})
        with pytest.raises(ArgumentError, match="'minus'"):
            await app.admin.replay(flow.id, edit={"minus": 1})
        assert await app.admin.replay(flow.id, edit={"plus": 10, "name": "total"}) == 1
        assert await flow.result(timeout=20) == "total: 13"


async def test_an_edit_cannot_make_a_job_too_large(store_url: str, namespace: str) -> None:
    app = Headrace(store_url, namespace=namespace, max_payload=100)

    @app.task
    async def send(to: str) -> None: ...

    async with app:
        (id,) = await bury(app, [envelope("send", "ann")])
        with pytest.raises(PayloadTooLarge):
            await app.admin.replay(id, edit={"to": "x" * 200})
        assert (await app.admin.queue("default")).dead == 1


async def test_an_edited_job_is_replayed_once_though_asked_twice(app: Headrace) -> None:
    @app.task
    async def send(to: str) -> None: ...

    (id,) = await bury(app, [envelope("send", "ann")], queue="mail")
    assert await app.admin.replay([id, "unknown"], edit={"to": "bob"}) == 1
    assert await app.admin.replay([id], edit={"to": "zoe"}) == 0
    assert await app.job(id).status() is State.WAITING
    assert await arguments(app, id) == {"to": "bob"}
