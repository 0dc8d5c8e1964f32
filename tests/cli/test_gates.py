"""What a blocked job waits for is said in the words of the user."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from click.testing import CliRunner

from headrace import Headrace
from headrace.cli import main
from headrace.cli.jobs.gates import gate_text
from headrace.core.job.constraints import QUEUE_LIMIT, batch_gate, rate_gate
from headrace.core.job.outcome import task_gate
from tests.cli.conftest import Start


@pytest.mark.parametrize(
    ("gate", "said"),
    [
        ("lane", "other jobs of its key"),
        ("task_lane", "other jobs of its task"),
        ("flow", "other jobs of its flow"),
        (task_gate("send"), "task send, which is paused"),
        (QUEUE_LIMIT, "the rate of queue mail"),
        (rate_gate("send"), "the rate of task send"),
        (rate_gate("send", "a:b"), "the rate of task send, key a:b"),
        (batch_gate("send"), "more jobs for a batch of task send"),
        (batch_gate("send", "ann"), "more jobs for a batch of task send, key ann"),
        ("of a newer version", "of a newer version"),
    ],
)
def test_a_gate_is_named_as_the_user_declared_it(gate: str, said: str) -> None:
    assert gate_text(gate, "mail", "send") == said


def test_a_gate_of_a_job_whose_task_is_not_known_keeps_its_name() -> None:
    assert gate_text(rate_gate("send", "ann"), "mail", None) == "the rate of send:ann"


def test_jobs_over_their_rate_say_so(shop: Path, start: Start) -> None:
    url = f"sqlite:///{shop}/headrace.db"

    async def send_two() -> None:
        async with Headrace(url) as app:

            @app.task(rate="1/h")
            async def send(number: int) -> None: ...

            await send.enqueue(1)
            await send.options(id="second").enqueue(2)

    asyncio.run(send_two())
    runner = CliRunner(env={"HEADRACE_URL": url})
    listed = runner.invoke(main, ["jobs", "list", "--state", "blocked"])
    assert listed.stdout.endswith("  waits for the rate of task send\n")
    shown = runner.invoke(main, ["jobs", "show", "second"])
    assert "\nwaits for  the rate of task send\n" in shown.stdout
    as_json = runner.invoke(main, ["jobs", "list", "--json"])
    assert '"waits_for": "rate:send"' in as_json.stdout
    watched = start("jobs", "watch", "--url", url, "-Q", "default", "--after", "")
    watched.says("second  send  waits for the rate of task send")
