"""Mistakes that newcomers make, each with the sentence that says what to do."""

from __future__ import annotations

import asyncio
import functools
import gc
import re
import warnings
from collections.abc import Iterator
from datetime import timedelta
from typing import Annotated, Any, Optional

import pytest

from headrace import ArgumentError, ConfigError, Context, Headrace, Retry, chain, group


class Shop:
    """An app with two tasks, for somebody who does not look at types."""

    def __init__(self) -> None:
        app = Headrace("memory://")

        @app.task
        async def add(a: int, b: int = 0) -> int:
            return a + b

        @app.task
        def greet(ctx: Context, name: str) -> str:
            return f"{name}, attempt {ctx.attempt}"

        self.app: Any = app
        self.add: Any = add
        self.greet: Any = greet


@pytest.fixture
def shop() -> Shop:
    return Shop()


def plain(number: int = 1) -> int:
    return number


def numbers() -> Iterator[int]:
    yield 1


class Mailer:
    def send(self, to: str) -> None: ...

    @classmethod
    def of(cls, to: str) -> None: ...


_SEND = "write `await add.enqueue(…)`, or `add.enqueue_sync(…)` in code without an event loop"
_URLS = [
    ("postgres://x", "unknown store URL 'postgres://x': use one of sqlite:///file.db"),
    ("localhost:6379", "has no '://': use one of sqlite:///file.db"),
    ("sqlite://jobs.db", "use sqlite:///file.db"),
    ("redis://localhost/x", "names no database: after the host comes /0"),
    ("redis://localhost:99999", "ports go from 1 to 65535"),
    ("redis://h1,h2", "for a cluster write redis+cluster://"),
    ("redis+sentinel://h1", "write redis+sentinel://host1,host2/master/0"),
    ("redis+cluster://", "write redis+cluster://host1:port,host2:port"),
    ("redis+cluster://h1/3", "a cluster has only database 0"),
    ("unix://tmp/redis.sock", "write unix:///file.sock"),
]
_MISTAKES: dict[str, tuple[Any, str]] = {
    "cron without a call": (lambda it: it.app.cron(plain), "write @app.cron('*/5 * * * *')"),
    "every without a call": (lambda it: it.app.every(plain), "write @app.every(30)"),
    "cron of nothing": (lambda it: it.app.cron(), "app.cron(): missing a required argument"),
    "every of 0": (lambda it: it.app.every(0), "every must be at least 0.1 seconds, not 0"),
    "cron of nonsense": (lambda it: it.app.cron("now"), "it takes five fields"),
    "tz": (lambda it: it.app.cron("@daily", tz="UTC"), 'write timezone="Europe/Berlin"'),
    "arguments that are none": (lambda it: it.app.every(5, args="ab"), "args must be a list"),
    "names that are none": (lambda it: it.app.every(5, kwargs=[1]), "kwargs must be a dict"),
    "task over every": (lambda it: it.app.task(it.add), "which is a task already"),
    "delay": (lambda it: it.add.delay(1), f"Task has no 'delay': {_SEND}"),
    "send": (lambda it: it.add.send(1), _SEND),
    "kiq": (lambda it: it.add.kiq(1), _SEND),
    "defer": (lambda it: it.add.defer(1), _SEND),
    "apply_async": (lambda it: it.add.apply_async((1,)), "write `await add.options(delay=…"),
    "s": (lambda it: it.add.s(1), "write `add.call(…)`"),
    "send_task": (lambda it: it.app.send_task("add"), "send through the task: `await task.enq"),
    "conf": (lambda it: it.app.conf.update(), "give settings to Headrace(…)"),
    "start": (lambda it: it.app.start(), "run `headrace worker module:app`"),
    "broker": (lambda it: Headrace(broker="x"), "the URL of the store is the first argument"),  # type: ignore[call-arg]
    "a flag": (lambda it: Headrace("memory://", events="yes"), "events must be True or False"),  # type: ignore[arg-type]
    "countdown": (lambda it: it.add.options(countdown=3), "write delay=…"),
    "max_retries": (lambda it: it.app.task(max_retries=7)(plain), "write retry=Retry(8): the num"),
    "max_tries": (lambda it: it.app.defaults(max_tries=7), "write retry=Retry(7): the number"),
    "endless": (lambda it: it.add.options(max_retries=None), "write retry=Retry(4) for three"),
    "rate_limit": (lambda it: it.app.task(rate_limit="1/m")(plain), 'write rate="1/m"'),
    "a rate that is a number": (lambda it: it.app.defaults(rate_limit=9), 'write rate="9/s"'),
    "an option of a call": (lambda it: it.add.call(1, delay=5), "add.options(delay=5).enqueue(…)"),
    "a foreign one": (lambda it: it.add.enqueue_sync(1, eta=5), "add.options(at=5).enqueue(…)"),
    "bind": (lambda it: it.app.task(bind=True)(plain), "a parameter annotated `Context`"),
    "misspelt": (lambda it: it.app.task(quue="a")(plain), "did you mean 'queue'?"),
    "misspelt for a queue": (lambda it: it.app.queue("a", rat="1/s"), "did you mean 'rate'?"),
    "misspelt for a worker": (lambda it: it.app.worker(queue="a"), 'write queues=["…"]'),
    "retries": (lambda it: Retry(max_retries=3), "write Retry(4): the number counts all runs"),  # type: ignore[call-arg]
    "a method": (lambda it: it.app.task(Mailer.send), "on the method Mailer.send"),
    "a classmethod": (lambda it: it.app.task(Mailer.__dict__["of"]), "the method Mailer.of"),
    "a lambda": (lambda it: it.app.task(lambda: 1), "write a def at the top level"),
    "a class": (lambda it: it.app.task(Mailer), "not on the class Mailer; put it into a def"),
    "a partial": (lambda it: it.app.task(functools.partial(plain, 1)), "put it into a def"),
    "a generator": (lambda it: it.app.task(numbers), "a generator cannot be a task"),
    "with": (lambda it: it.app.__enter__(), "write `async with app:`, not `with app:`"),
    "with a worker": (lambda it: it.app.worker().__enter__(), "write `async with app.worker():`"),
    "group of two": (lambda it: group(it.add.call(1), it.add), "group([a.call(1), b.call(2)])"),  # type: ignore[call-overload]
    "group of one": (lambda it: group(it.add.call(1)), "group([a.call(1), b.call(2)])"),
    "chain of a list": (lambda it: chain([it.add.call(1)]), "chain(a.call(1), b.call())"),  # type: ignore[call-overload]
    "chain of tasks": (lambda it: chain(it.add), "like add.call(…), not the task itself"),
    "a context that is missing": (lambda it: it.greet("Ann"), "made by headrace.testing.context()"),
    "enqueue_sync of a function": (lambda it: it.app.enqueue_sync(plain, 1), "put @app.task on it"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", _MISTAKES)
def test_a_mistake_gets_a_sentence_that_says_what_to_do(mistake: str, shop: Shop) -> None:
    make, said = _MISTAKES[mistake]
    with pytest.raises((ConfigError, ArgumentError, AttributeError), match=re.escape(said)):
        make(shop)


@pytest.mark.parametrize(("url", "said"), _URLS)
def test_a_url_that_no_store_has_is_refused_when_it_is_declared(url: str, said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        Headrace(url)


_SENT: dict[str, tuple[Any, str]] = {
    "a function": (lambda it: it.app.enqueue(plain, 1), "put @app.task on it, and give it plain."),
    "a task": (lambda it: it.app.enqueue(it.add, 1), "like add.call(…), not the task itself"),
    "a name": (lambda it: it.app.enqueue("add", 1), "app.tasks['add'].call(…) is one"),
    "two calls": (lambda it: it.app.enqueue(it.add.call(1), it.add.call(2)), "enqueue_many([…])"),
    "one call": (lambda it: it.app.enqueue_many(it.add.call(1)), "enqueue_many([a.call(1), b."),
    "one event": (lambda it: it.app.topic("t", int).publish_many(5), "publish_many([…])"),
    "tasks": (lambda it: it.app.enqueue_many([it.add]), "like add.call(…), not the task itself"),
    "a call, awaited": (lambda it: it.add.call(1), "write `await task.enqueue(…)`"),
    "a flow, awaited": (lambda it: group([it.add.call(1)]), "write `await task.enqueue(…)`"),
    "a worker, awaited": (lambda it: it.app.worker(), "write `await app.worker().run()`"),
}


@pytest.mark.parametrize("mistake", _SENT)
async def test_a_send_that_cannot_be_says_what_to_write(mistake: str, shop: Shop) -> None:
    make, said = _SENT[mistake]
    with pytest.raises(ConfigError, match=re.escape(said)):
        await make(shop)
    await shop.app.close()


@pytest.mark.parametrize("name", ["delay", "apply_async", "send_task"])
def test_names_of_other_libraries_stay_unknown(name: str, shop: Shop) -> None:
    assert not hasattr(shop.add, name)
    assert name not in dir(shop.app)


# In code without an event loop


def test_a_coroutine_that_is_used_as_the_job_explains_itself(shop: Shop) -> None:
    job = shop.add.enqueue(1)
    with pytest.raises(
        AttributeError, match=re.escape("write add.enqueue_sync(…), or asyncio.run")
    ):
        job.result()
    assert "must be awaited" in repr(job)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # It was explained once.
        del job
        gc.collect()


@pytest.mark.parametrize(
    ("send", "said"),
    [
        (lambda it: it.add.enqueue(1), r"write add\.enqueue_sync"),
        (lambda it: it.app.enqueue(it.add.call(1)), r"write app\.enqueue_sync"),
        (lambda it: it.app.enqueue_many([it.add.call(1)]), r"write app\.enqueue_many_sync"),
        (lambda it: it.app.topic("t", str).publish("a"), r"write topic\.publish_sync"),
        (lambda it: it.app.job("a").result(), r"write job\.result_sync"),
    ],
)
def test_a_coroutine_that_is_dropped_is_warned_of_where_it_was_made(
    send: Any, said: str, shop: Shop
) -> None:
    with pytest.warns(RuntimeWarning, match=f"has done nothing yet.*{said}") as caught:
        gc.collect(send(shop) and 0)
    assert caught[0].filename == __file__


def test_a_coroutine_can_be_awaited_later(shop: Shop) -> None:
    assert asyncio.iscoroutinefunction(shop.add.enqueue)
    job = asyncio.run(shop.add.enqueue(1))
    assert len(job.id) == 36
    cancelled = shop.add.enqueue(1)
    cancelled.close()
    with pytest.raises(RuntimeError, match="already awaited"):
        cancelled.send(None)


def test_many_calls_are_sent_from_code_without_an_event_loop(shop: Shop) -> None:
    jobs = shop.app.enqueue_many_sync([shop.add.call(1), shop.add.call(2)])
    assert len({job.id for job in jobs}) == 2
    shop.app.portal.close()


# What simply works


def test_durations_are_seconds_or_timedeltas_everywhere(shop: Shop) -> None:
    half = timedelta(seconds=0.5)
    declared = shop.app.task(timeout=half, result_ttl=half, name="timed")(plain).declared
    assert (declared.timeout, declared.result_ttl) == (0.5, 0.5)
    retry = Retry(base=half, cap=timedelta(minutes=1), backoff=[half, 2])
    assert (retry.base, retry.cap, retry.backoff) == (0.5, 60.0, (0.5, 2.0))
    assert Headrace("memory://", lease=half).lease == 0.5
    settings = shop.app.worker(drain=half, wait_for_store=half).settings
    assert (settings.drain, settings.wait_for_store) == (0.5, 0.5)
    assert shop.app.every(timedelta(minutes=5))(plain).name == "plain"


def test_retry_takes_one_error_or_several() -> None:
    for given in (ValueError, [ValueError], {ValueError}, "ValueError"):
        retry = Retry(on=given, never=KeyError)  # type: ignore[arg-type]
        assert retry.retries(ValueError())
        assert not retry.retries(TypeError())
        assert not retry.retries(KeyError())


@pytest.mark.parametrize(
    "hint", [Context, Context | None, Optional[Context], Annotated[Context, 1], "Context | None"]  # noqa: UP045
)  # fmt: skip
def test_a_context_is_filled_in_however_it_is_annotated(hint: Any, shop: Shop) -> None:
    def run(name: str, ctx: Any = None) -> str:
        return f"{name} {ctx and ctx.attempt}"

    run.__annotations__["ctx"] = hint
    task = shop.app.task(run)
    context = Context(shop.app.job("a"), 3, "w", 1)
    assert task.with_context(context, ("Ann",), {}) == (("Ann", context), {})
    assert b"ctx" not in task.call("Ann").payload
    if hint != Context and hint != Annotated[Context, 1]:
        assert task("Ann") == "Ann None"


def test_a_static_method_is_a_function(shop: Shop) -> None:
    app = shop.app

    class Mail:
        @app.task  # type: ignore[untyped-decorator]
        @staticmethod
        def below(to: str) -> str:
            return to

        @staticmethod
        @app.task  # type: ignore[untyped-decorator]
        def above(to: str) -> str:
            return to

    assert Mail.below("a") == Mail.above("a") == "a"
