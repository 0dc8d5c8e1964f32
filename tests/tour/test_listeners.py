"""Listeners: what has happened to jobs in a worker; on every store."""

from __future__ import annotations

import asyncio

from headrace import Context, Defer, Headrace, Reject, Retry, State, Topic, WorkerEvent
from headrace.client.ends.listener import MOMENTS
from tests.tour.heard import Paid
from tests.worker.states import until


async def test_listeners_hear_what_is_written_and_what_they_ask_for(
    app: Headrace, orders: Topic[Paid]
) -> None:
    heard: list[tuple[str, str, str, int, str]] = []
    states: list[State] = []
    deferred: list[bool] = []

    @app.task(retry=Retry(2, base=0.0))
    async def work(what: str) -> str:
        if what == "reject":
            raise Reject("no")
        if what == "fail":
            raise ValueError("not today")
        if not deferred:
            deferred.append(True)
            raise Defer(0.01)
        return what

    @app.task
    def other() -> None: ...

    @orders.subscribe("billing")
    async def bill(event: Paid) -> None: ...

    def note(event: WorkerEvent) -> None:
        text = event.error_text or event.reason
        heard.append((event.kind, event.task, event.id, event.attempt, text))

    @app.on("done", task=["work", bill])
    async def note_done(event: WorkerEvent) -> None:
        note(event)
        if event.task == "work":
            states.append(await app.job(event.id).status())

    app.on("dead", task=work)(note)
    app.on("retried")(note)

    async with app.worker():
        await other.enqueue()
        done = await work.enqueue("fine")
        rejected = await work.enqueue("reject")
        failed = await work.enqueue("fail")
        paid = await orders.publish(Paid("1", 5))
        await until(lambda: len(heard) == 5 and states)
    assert states == [State.DONE]
    assert sorted(heard) == sorted(
        [
            ("done", "work", done.id, 1, ""),
            ("done", "orders/billing", paid, 1, ""),
            ("dead", "work", rejected.id, 1, "no"),
            ("retried", "work", failed.id, 1, "not today"),
            ("dead", "work", failed.id, 2, "not today"),
        ]
    )


async def test_listeners_hear_of_jobs_that_are_taken_over_or_cancelled(
    store_url: str, namespace: str
) -> None:
    app = Headrace(store_url, namespace=namespace, lease=0.3)
    heard: list[WorkerEvent] = []
    began: list[str] = []

    @app.task
    async def wait(ctx: Context) -> None:
        began.append(ctx.job.id)
        await asyncio.sleep(600)

    for kind in MOMENTS:
        app.on(kind)(heard.append)

    async with app:
        job = await wait.enqueue()
        gone = app.store.consumer("gone", ["default"], app.lease)
        assert await gone.fetch(1, 0)
        async with app.worker(name="second"):
            await until(lambda: began)
            assert await job.cancel()
            await until(lambda: len(heard) == 2)
        await gone.close()
    stalled, cancelled = heard
    assert (stalled.kind, stalled.id, stalled.task) == ("stalled", job.id, "wait")
    assert (stalled.attempt, stalled.duration) == (0, None)
    assert (cancelled.kind, cancelled.id, cancelled.attempt) == ("cancelled", job.id, 1)
    assert cancelled.duration is not None
    assert cancelled.worker.startswith("second")
