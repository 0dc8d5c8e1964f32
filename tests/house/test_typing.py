"""What a type checker says of user code: right programs pass as they are, wrong ones do not."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.once import once

Verdicts = dict[tuple[str, int], str]

SAID = "said.txt"
# Kept from run to run: the package itself is then known to mypy, and only what changed is checked.
CACHE = Path(__file__).parents[2] / ".mypy_cache" / "users"

TASKS = """
from datetime import timedelta
from typing import Any

from headrace import Context, Headrace, Retry

app = Headrace("memory://")


@app.task
async def add(a: int, b: int) -> int:
    return a + b


LIMIT = timedelta(seconds=30)


@app.task(queue="mail", retry=Retry(5, on=ConnectionError, base=LIMIT), timeout=LIMIT)
def send_mail(to: str, subject: str = "hello") -> None:
    print(to, subject)


@app.task
async def loose(data: dict[str, Any], more: Any) -> dict[str, Any]:
    return data


@app.task(run_in="process")
def crunch(n: int) -> list[int]:
    return [n]


@app.task
async def greet(ctx: Context, name: str) -> str:
    return f"{name} {ctx.attempt}"


@app.task(timeout=None)
def greet_sync(ctx: Context, name: str) -> str:
    return f"{name} {ctx.attempt}"


@app.task(result_ttl=0)
async def generic(*names: str, limit: int = 5, **more: bytes) -> dict[str, int]:
    return dict.fromkeys([*names, *more], limit)


@app.task
def total(numbers: list[int]) -> int:
    return sum(numbers)
"""

PARTS = """
from headrace import Context, Headrace, Retry, Tasks

mail = Tasks(prefix="mail")
tasks = Tasks()
tasks.include(mail, prefix="shop")
tasks.defaults(retry=Retry(3), queue="mail")
app = Headrace("memory://", include=["shop.orders"])
app.include(tasks, prefix="eu")


@mail.task
async def send(ctx: Context, to: str) -> bool:
    return bool(to)


@tasks.task(batch=10, max_wait=1, queue="slow")
def collect(numbers: list[int]) -> list[int]:
    return numbers


@tasks.cron("0 3 * * *", timezone="Europe/Berlin")
def report(ctx: Context) -> str:
    return ctx.job.id
"""

TOPICS = """
from dataclasses import dataclass
from datetime import timedelta

from headrace import Context, DeadEvent, Delivery, Headrace, Retry

app = Headrace("memory://")


@dataclass
class OrderPaid:
    order_id: str
    amount: int


@dataclass
class Refund:
    order_id: str


orders = app.topic(
    "orders", OrderPaid, key=lambda e: e.order_id, retention=timedelta(days=7), shards=1
)
raw = app.topic("raw", bytes, codec="raw", max_length=100, overflow="drop_oldest")


@orders.subscribe("billing", retry=Retry(5), max_in_flight=64)
async def bill(event: OrderPaid) -> None: ...


@orders.subscribe("audit", ack="manual")
async def audit(event: OrderPaid, delivery: Delivery) -> None:
    await delivery.ack()


@orders.subscribe("ledger", ordered=True, on_failure="block")
def ledger(event: OrderPaid, ctx: Context) -> int:
    return event.amount


@orders.subscribe("warehouse", batch=500, max_wait=0.25)
async def load(events: list[OrderPaid]) -> None: ...


@orders.broadcast
async def drop_cache(event: OrderPaid) -> None: ...


@orders.broadcast(timeout=5)
def drop_more(event: OrderPaid) -> None: ...


@orders.on_dead("billing")
async def on_death(event: OrderPaid, dead: DeadEvent) -> None:
    print(dead.reason, dead.raw)


async def refund(event: Refund) -> None: ...


@app.subscribe(["orders", "refunds"], "both", event=OrderPaid | Refund)
async def both(event: OrderPaid | Refund) -> None: ...


@app.subscribe(["orders", "refunds"], "many", event=OrderPaid | Refund, batch=5)
async def many(events: list[OrderPaid | Refund]) -> None: ...


either = app.topic("either", OrderPaid | Refund)


async def main() -> None:
    id: str = await orders.publish(
        OrderPaid("o-1", 995), headers={"tenant": "eu"}, id=None, delay=None, expires=None
    )
    outcome = await orders.publish_many([OrderPaid(f"o-{n}", n) for n in range(10)])
    if not outcome.ok:
        outcome = await orders.publish_many(outcome.to_republish)
    await orders.rewind("billing", to=id)
    print([event.data.amount for event in await orders.read(after=id, limit=5)])
    await audit(OrderPaid("o-2", 1))
"""

RIGHT = """
from datetime import UTC, datetime, timedelta

from headrace import (
    Call, HeadraceError, Job, JobFailed, JobInfo, RetryLater, Reject, Defer, State, current,
)

from tasks import add, app, crunch, generic, loose, send_mail, greet, greet_sync


async def main() -> int:
    async with app as same:
        job: Job[int] = await same.enqueue(add.call(1, 2))
        job = await add.enqueue(2, b=3)
        five: int = await job.result(timeout=10)
        state: State = await job.status()
        info: JobInfo = await job.info()
        mail: Job[None] = await send_mail.enqueue("a@b.c")
        await send_mail.enqueue("a@b.c", subject="x")
        numbers: list[int] = await (await crunch.enqueue(5)).result()
        text_back: str = await (await greet.enqueue("x")).result()
        told_more: str = await (await greet_sync.enqueue(name="x")).result()
        found: dict[str, int] = await (await generic.enqueue("a", "b", limit=3, c=b"x")).result()
        later = add.options(delay=60, queue="slow", id="one", headers={"tenant": "eu"})
        delayed: Job[int] = await later.enqueue(1, 2)
        await add.options(at=datetime.now(UTC), expires=timedelta(days=1)).enqueue(1, 2)
        calls: list[Call[int]] = [add.call(n, n) for n in range(10)]
        jobs: list[Job[int]] = await app.enqueue_many(calls)
        await app.enqueue_many(add.call(n, n) for n in range(10))
        print(state, info.attempts, mail.id, numbers, text_back, told_more, found, delayed, jobs)
        return five


def outside() -> int:
    job: Job[int] = add.enqueue_sync(1, 2)
    try:
        return job.result_sync(5)
    except JobFailed as error:
        print(error.error_type, error.error_text, error.traceback)
    except HeadraceError as error:
        print(error.retryable)
    return crunch(5)[0]


async def here() -> int:
    if current().attempt > 3:
        raise Reject("why")
    if current().cancelled:
        raise Defer(5)
    if current().deadline is None:
        raise RetryLater(timedelta(seconds=5))
    return await add(1, 2)


async def work() -> None:
    outcome = await app.worker(queues=["mail"], concurrency=10).run()
    print(outcome)
"""

# What each expression is, to a type checker.
REVEALED = [
    ("await perform(add, 1, b=2, attempt=3)", "headrace.testing.perform.performed.Performed[int]"),
    ("perform_sync(greet_sync, 'ada').result", "str | None"),
    ("await perform_batch(load, [])", "list[headrace.testing.perform.performed.Performed[None]]"),
    ("app.testing().published(orders)", "list[topics.OrderPaid]"),
    ("app.testing().assert_sent(add, 1, b=2, delay=0)[0].id", "str"),
    ("context(attempt=2).logged", "list[str]"),
    ("await add.enqueue(1, 2)", "headrace.client.job.Job[int]"),
    ("await (await add.enqueue(1, 2)).result()", "int"),
    ("await loose.enqueue({}, 1)", "headrace.client.job.Job[dict[str, Any]]"),
    ("add.enqueue_sync(1, 2)", "headrace.client.job.Job[int]"),
    ("add.enqueue_sync(1, 2).result_sync()", "int"),
    ("await add.options(delay=5).enqueue(1, 2)", "headrace.client.job.Job[int]"),
    ("await add.options(delay=5).options(queue='x').enqueue(1, 2)", "headrace.client.job.Job[int]"),
    ("add.call(1, 2)", "headrace.core.task.call.Call[int]"),
    ("await app.enqueue(add.call(1, 2))", "headrace.client.job.Job[int]"),
    ("await app.enqueue_many([add.call(1, 2)])", "list[headrace.client.job.Job[int]]"),
    ("add(1, 2)", "Coroutine[Any, Any, int]"),
    ("await add(1, 2)", "int"),
    ("add.options(delay=5)(1, 2)", "Coroutine[Any, Any, int]"),
    ("crunch(5)", "list[int]"),
    ("await crunch.enqueue(5)", "headrace.client.job.Job[list[int]]"),
    ("crunch.options(timeout=None)(5)", "list[int]"),
    ("await send_mail.enqueue('a')", "headrace.client.job.Job[None]"),
    ("await greet.enqueue('x')", "headrace.client.job.Job[str]"),
    ("await greet('x')", "str"),
    ("await greet_sync.enqueue('x')", "headrace.client.job.Job[str]"),
    ("greet_sync('x')", "str"),
    ("await generic.enqueue('a', limit=2, b=b'')", "headrace.client.job.Job[dict[str, int]]"),
    ("await (await add.enqueue(1, 2)).status()", "headrace.core.job.state.State"),
    ("app.job('x')", "headrace.client.job.Job[Any]"),
    ("app.job('x', add)", "headrace.client.job.Job[int]"),
    ("app.job('x', crunch)", "headrace.client.job.Job[list[int]]"),
    ("add.job('x')", "headrace.client.job.Job[int]"),
    ("await greet.job('x').result()", "str"),
    ("crunch.options(delay=5).job('x')", "headrace.client.job.Job[list[int]]"),
    ("send", "headrace.client.task.Task[[to: str], Coroutine[Any, Any, bool]]"),
    ("await send.enqueue('x')", "headrace.client.job.Job[bool]"),
    ("collect.call(1)", "headrace.core.task.call.Call[int]"),
    ("report()", "str"),
    ("crunch.call()", "headrace.core.task.open_call.OpenCall[int, list[int]]"),
    ("chain(add.call(1, 2), crunch.call())", "headrace.core.flow.flow.Flow[list[int]]"),
    (
        "group([add.call(1, 2), add.call(3, 4)]).then(total.call())",
        "headrace.core.flow.flow.Flow[int]",
    ),
    (
        "chain(add.call(1, 2), add.call(b=1), crunch.call(), total.call())",
        "headrace.core.flow.flow.Flow[int]",
    ),
    ("chain(add.call(1, 2), send_mail.call('a'))", "headrace.core.flow.flow.Flow[None]"),
    ("await app.enqueue(total.call().after(add.call(1, 2)))", "headrace.client.job.Job[int]"),
    ("orders", "headrace.client.topic.topic.Topic[topics.OrderPaid]"),
    ("await orders.publish(OrderPaid('o', 1))", "str"),
    ("(await orders.publish_many([]))[0].ok", "bool"),
    ("(await orders.read())[0].data", "topics.OrderPaid"),
    ("(await raw.read())[0].data", "bytes"),
    ("either", "headrace.client.topic.topic.Topic[Any]"),
    ("await audit(OrderPaid('o', 1))", "None"),
    ("ledger(OrderPaid('o', 1))", "int"),
    (
        "load",
        "headrace.client.topic.subscription.Subscription[[list[topics.OrderPaid]], "
        "Coroutine[Any, Any, None]]",
    ),
]

# What a type checker refuses, and with which of its words.
WRONG = [
    ('await add.enqueue(1, "2")', "arg-type"),
    ("await add.enqueue(1)", "call-arg"),
    ("await add.enqueue(1, 2, 3)", "call-arg"),
    ("await add.enqueue(1, 2, c=3)", "call-arg"),
    ("await add.options(delay=5).enqueue(1)", "call-arg"),
    ('await add.options(delay=5).enqueue("1", 2)', "arg-type"),
    ("add.options(colour=5)", "call-arg"),
    ('add.options(delay="soon")', "arg-type"),
    ('add.call("1", 2)', "arg-type"),
    ("add.enqueue_sync(1)", "call-arg"),
    ('add(1, "2")', "arg-type"),
    ("add.delay(1, 2)", "attr-defined"),
    ("app.send_task('add')", "attr-defined"),
    ("app.enqueue(add, 1)", "call-overload"),
    ("await add.call(1, 2)", "misc"),
    ("send_mail.declared.retry.__class__(max_retries=3)", "call-arg"),
    ("app.worker(queue='mail')", "call-arg"),
    ("send_mail()", "call-arg"),
    ("await send_mail.enqueue(5)", "arg-type"),
    ('await crunch.enqueue("5")', "arg-type"),
    ("await greet.enqueue()", "call-arg"),
    ("await greet.enqueue(5)", "arg-type"),
    ("await greet.enqueue(ctx=None, name='x')", "call-arg"),
    ("await greet_sync.enqueue(5)", "arg-type"),
    ("await generic.enqueue(5)", "arg-type"),
    ("await generic.enqueue(limit='x')", "arg-type"),
    ('await loose.enqueue("text", 1)', "arg-type"),
    ("await loose.enqueue({})", "call-arg"),
    ("word: str = await (await add.enqueue(1, 2)).result()", "assignment"),
    ("await app.enqueue(total.call())", "call-overload"),
    ("chain(add.call(1, 2), total.call())", "misc"),
    ("chain(add.call(1, 2), crunch.call(), greet.call())", "misc"),
    ("group([add.call(1, 2)]).then(crunch.call())", "arg-type"),
    ("group([greet.call('a')]).then(total.call())", "arg-type"),
    ("chain(add.call(1, 2), group([total.call(), total.call()]))", "misc"),
    ("app.task(run_in='fork')", "call-overload"),
    ("tasks.task(run_in='fork')", "call-overload"),
    ("await send.enqueue(5)", "arg-type"),
    ("await collect.enqueue([5])", "arg-type"),
    ("app.include(tasks, colour='red')", "call-arg"),
    ("word: str = await add.job('x').result()", "assignment"),
    ("app.task(colour='red')", "call-overload"),
    ("app.worker(concurrency='many')", "arg-type"),
    ("await orders.publish(Refund('o'))", "arg-type"),
    ("await orders.publish(OrderPaid('o', 1), colour='red')", "call-arg"),
    ("await orders.publish(OrderPaid('o', 1), delay='soon')", "arg-type"),
    ("await orders.publish_many([Refund('o')])", "list-item"),
    ("await raw.publish('text')", "arg-type"),
    ("await bill(Refund('o'))", "arg-type"),
    ("await load(OrderPaid('o', 1))", "arg-type"),
    ("orders.subscribe('refunds')(refund)", "arg-type"),
    ("orders.subscribe('refunds', batch=5)(refund)", "arg-type"),
    ("orders.subscribe('refunds', ack='later')(bill)", "call-overload"),
    ("orders.broadcast(refund)", "arg-type"),
    ("orders.on_dead('billing')(refund)", "arg-type"),
    ("app.topic('other', OrderPaid, key=lambda e: e.colour)", "attr-defined"),
    ("app.topic('other', OrderPaid, overflow='drop_some')", "arg-type"),
    ("app.topic('other', OrderPaid, colour='red')", "call-arg"),
]

IMPORTS = (
    "from headrace import chain, group; "
    "from headrace.testing import context, perform, perform_batch, perform_sync; "
    "from tasks import add, app, crunch, generic, loose, send_mail, greet, greet_sync, total; "
    "from parts import collect, mail, report, send, tasks; "
    "from topics import OrderPaid, Refund, audit, bill, either, ledger, load, orders, raw, refund\n"
)


def each_in_a_function(lines: list[str]) -> str:
    """A program with each of the lines at its place in the list, from line 2 on."""
    return IMPORTS + "".join(
        f"async def case_{number}() -> None: {line}\n" for number, line in enumerate(lines)
    )


@pytest.fixture(scope="session")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> Verdicts:
    """What mypy says of the programs, by file and line; one run for all."""
    return read(once(tmp_path_factory, "verdicts", check) / SAID)


def check(folder: Path) -> None:
    programs = {
        "tasks.py": TASKS,
        "topics.py": TOPICS,
        "parts.py": PARTS,
        "right.py": RIGHT,
        "revealed.py": each_in_a_function([f"it = reveal_type({what})" for what, _ in REVEALED]),
        "wrong.py": each_in_a_function([what for what, _ in WRONG]),
    }
    for name, text in programs.items():
        (folder / name).write_text(text)
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--no-error-summary"]
    command += ["--cache-dir", str(CACHE), "--show-error-codes", "--no-pretty", *programs]
    with (folder / SAID).open("w") as said:
        done = subprocess.run(
            command, cwd=folder, stdout=said, stderr=subprocess.PIPE, text=True, check=False
        )
    assert not done.stderr, done.stderr


def read(file: Path) -> Verdicts:
    said: Verdicts = {}
    for line in file.read_text().splitlines():
        found = re.match(r"(\w+\.py):(\d+): (.*)", line)
        assert found, line
        place = found[1], int(found[2])
        said[place] = f"{said[place]}\n{found[3]}" if place in said else found[3]
    return said


def test_a_right_program_passes_without_a_cast(verdicts: Verdicts) -> None:
    right = ("tasks.py", "parts.py", "topics.py", "right.py")
    found = {place: text for place, text in verdicts.items() if place[0] in right}
    assert not found
    assert not re.search(r"\bcast\b|type: ignore", TASKS + PARTS + TOPICS + RIGHT)


@pytest.mark.parametrize(("expression", "kind"), REVEALED)
def test_the_type_checker_knows_the_type_of(expression: str, kind: str, verdicts: Verdicts) -> None:
    line = REVEALED.index((expression, kind)) + 2
    said = verdicts["revealed.py", line].replace("builtins.", "").replace("typing.", "")
    assert said == f'note: Revealed type is "{kind}"'


@pytest.mark.parametrize(("statement", "code"), WRONG)
def test_the_type_checker_refuses(statement: str, code: str, verdicts: Verdicts) -> None:
    line = WRONG.index((statement, code)) + 2
    said = verdicts.get(("wrong.py", line), "nothing was said")
    # Async tasks have overloads, of which the checker then says that none fits.
    assert f"[{code}]" in said or "[call-overload]" in said
