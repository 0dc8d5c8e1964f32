"""What a job of a flow received from those before it, on every store."""

from __future__ import annotations

from functools import partial
from typing import Any

from headrace import Headrace, Retry, chain, group
from tests.browser.shop import has_dead, until
from tests.web.browsing import Person


class Kitchen:
    """Dishes that are served together, of which the last step fails until it is `open`."""

    def __init__(self, app: Headrace) -> None:
        self.open = False

        @app.task(name="cook")
        async def cook(dish: str) -> dict[str, str]:
            return {"dish": dish, "secret": "saffron"}

        @app.task(name="serve", retry=Retry(1))
        async def serve(dishes: list[dict[str, str]], table: int) -> int:
            if not self.open:
                raise ValueError("closed")
            return len(dishes)

        @app.task(name="bill")
        async def bill(count: int) -> int:
            return count

        self.cook, self.serve, self.bill = cook, serve, bill


RICE, SOUP = ({"dish": dish, "secret": "saffron"} for dish in ("rice", "soup"))


async def test_what_a_job_received_is_shown_dead_and_done(app: Headrace) -> None:
    kitchen = Kitchen(app)
    dishes = group([kitchen.cook.call("rice"), kitchen.cook.call("soup")])
    flow = await app.enqueue(chain(dishes.then(kitchen.serve.call(table=7)), kitchen.bill.call()))
    assert (await app.admin.job(flow.id)).received is None
    async with app.worker(), Person(app) as person:
        await until(partial(has_dead, app, "default", 2))
        (served,) = [job for job in await app.admin.dead() if job.task == "serve"]
        assert (await app.admin.dead_job(served.id)).received == (RICE, SOUP)
        assert "soup" in await person.page("/job", id=served.id)
        raw = await person.get("/raw", id=served.id, part="received")
        assert "rice" in raw.text
        kitchen.open = True
        await app.admin.replay(served.id)
        assert await flow.result(timeout=20) == 2
        assert (await app.admin.job(served.id)).received == (RICE, SOUP)
        assert (await app.admin.job(flow.id)).received == (2,)


def hide(task: str, value: Any) -> Any:
    if task == "cook" and isinstance(value, dict):
        return {**value, "secret": "***"}
    if task == "serve" and isinstance(value, dict) and "dishes" in value:
        return {**value, "dishes": [{**dish, "dish": "#"} for dish in value["dishes"]]}
    return "(hidden)" if task == "bill" else value


async def test_what_hooks_hide_of_results_and_arguments_is_hidden_in_what_is_received(
    app: Headrace,
) -> None:
    kitchen = Kitchen(app)
    kitchen.open = True
    app.redact = hide
    dishes = group([kitchen.cook.call("rice"), kitchen.cook.call("soup")])
    flow = await app.enqueue(chain(dishes.then(kitchen.serve.call(table=7)), kitchen.bill.call()))
    async with app.worker():
        await flow.result(timeout=20)
    admin = app.admin.redacted()
    parents = {job.task: job.id for job in (await admin.flow(flow.id)).jobs}
    served = await admin.job(parents["serve"])
    assert served.received == ({"dish": "#", "secret": "***"},) * 2
    assert (await admin.job(flow.id)).received == ("(hidden)",)
