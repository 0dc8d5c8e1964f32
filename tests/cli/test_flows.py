"""`headrace jobs` for flows: list, show, why, resume."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from headrace import Headrace, JobFailed, Retry, chain
from headrace.cli import main


class Bakery:
    """A store with a flow of three jobs: `dough` is done, `oven` has failed, `shop` died with it;
    and one of two that wait: `later` and `last`."""

    def __init__(self, folder: Path) -> None:
        self.url = f"sqlite:///{folder}/headrace.db"
        asyncio.run(self._fill())

    async def _fill(self) -> None:
        async with Headrace(self.url) as app:

            @app.task
            async def mix(grams: int) -> int:
                return grams

            @app.task(queue="hot", retry=Retry(1))
            async def bake(grams: int) -> int:
                raise RuntimeError("it is cold")

            mixed, baked = mix.options(id="dough").call(500), bake.options(id="oven").call()
            sold = mix.options(id="shop").call()
            async with app.worker():
                with pytest.raises(JobFailed):
                    await (await app.enqueue(chain(mixed, baked, sold))).result(timeout=10)
            later = mix.options(id="later", delay=3600).call(1)
            await app.enqueue(chain(later, mix.options(id="last").call()))

    def run(self, *arguments: str) -> Result:
        return CliRunner(env={"HEADRACE_URL": self.url}).invoke(main, ["jobs", *arguments])


@pytest.fixture
def bakery(shop: Path) -> Bakery:
    return Bakery(shop)


def test_a_flow_is_listed_whatever_the_states_of_its_jobs(bakery: Bakery) -> None:
    def listed(*arguments: str) -> dict[str, str]:
        result = bakery.run("list", "--flow", "shop", "--json", *arguments)
        assert result.exit_code == 0, result.stderr
        return {job["id"]: job["state"] for job in json.loads(result.stdout)}

    assert listed() == {"dough": "done", "oven": "dead", "shop": "dead"}
    assert listed("--state", "done") == {"dough": "done"}


def test_a_job_is_shown_with_those_it_is_after_and_what_failed_first(bakery: Bakery) -> None:
    def shown(id: str) -> dict[str, str]:
        result = bakery.run("show", id)
        assert result.exit_code == 0, result.stderr
        return {line[:11].strip(): line[11:] for line in result.stdout.splitlines()}

    dead = shown("shop")
    assert dead["flow"] == "shop, which this job ends"
    assert dead["after"] == "oven of task bake: dead"
    assert dead["cause"] == "oven in queue hot failed first"
    assert dead["ended"]
    assert shown("oven")["after"] == "dough of task mix: done"
    assert shown("oven")["received"] == "500"
    assert shown("oven")["arguments"] == "{}"
    assert "received" not in shown("dough")
    assert shown("last")["received"] == "its first argument comes from the jobs that it is after"
    assert json.loads(bakery.run("show", "oven", "--json").stdout)["received"] == [500]
    assert shown("last")["waits for"] == "other jobs of its flow"
    assert json.loads(bakery.run("show", "shop", "--json").stdout)["parents"] == ["oven"]


def test_why_names_the_job_that_is_waited_for(bakery: Bakery) -> None:
    assert bakery.run("why", "last").stdout == (
        "It is blocked: it ends its flow, and waits for job later of task 'mix' (scheduled) to "
        "end.\n"
    )


def test_a_flow_is_resumed(bakery: Bakery) -> None:
    assert bakery.run("resume", "dough").stdout == "replayed 1 job\n"
    assert json.loads(bakery.run("show", "oven", "--json").stdout)["state"] == "waiting"
    assert bakery.run("resume", "shop").stdout == "no job of the flow has failed\n"
    assert json.loads(bakery.run("resume", "shop", "--json").stdout) == {"replayed": 0}
    unknown = bakery.run("resume", "nothing")
    assert unknown.exit_code == 1


def test_what_is_in_no_flow_is_not_resumed_but_replayed_if_dead(bakery: Bakery) -> None:
    async def work() -> None:
        async with Headrace(bakery.url) as app:

            @app.task(retry=Retry(1))
            async def bake(grams: int) -> None:
                if not grams:
                    raise ValueError("nothing in it")

            async with app.worker():
                await (await bake.options(id="cake").enqueue(1)).result(timeout=10)
                with pytest.raises(JobFailed):
                    await (await bake.options(id="air").enqueue(0)).result(timeout=10)

    asyncio.run(work())
    for id, said in (
        ("cake", "job cake is in no flow, and done: headrace dead replay sends dead ones again"),
        ("air", "job air is in no flow: headrace dead replay air sends it again"),
    ):
        refused = bakery.run("resume", id)
        assert (refused.exit_code, refused.stderr) == (2, f"headrace: {said}\n")
