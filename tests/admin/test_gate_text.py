"""What a blocked job waits for, in words."""

from __future__ import annotations

import pytest

from headrace import Headrace
from headrace.admin.jobs.gate_text import gate_text
from headrace.core.job.constraints import QUEUE_LIMIT, batch_gate, rate_gate
from headrace.core.job.outcome import task_gate


@pytest.mark.parametrize(
    ("gate", "text"),
    [
        ("lane", "others of key 'a'"),
        ("task_lane", "others of its task"),
        ("flow", "other jobs of its flow"),
        (QUEUE_LIMIT, "the rate of its queue"),
        (rate_gate("send:to"), "the rate of its task"),
        (rate_gate("send:to", "c:1"), "the rate of 'c:1'"),
        (batch_gate("send:to"), "others of its batch"),
        (batch_gate("send:to", "c1"), "others of the batch 'c1'"),
        (task_gate("send:to"), "its task to be resumed"),
    ],
)
def test_each_gate_is_said_in_words(gate: str, text: str) -> None:
    assert gate_text(gate, "a", "send:to") == text


async def test_a_listed_job_says_what_it_waits_for(app: Headrace) -> None:
    @app.task
    async def send() -> None: ...

    for _ in range(2):
        await send.options(key="o-17").enqueue()
    (blocked,) = (await app.admin.jobs(state="blocked")).jobs
    assert (blocked.waits_for, blocked.waits_text) == ("lane", "others of key 'o-17'")
    (waiting,) = (await app.admin.jobs(state="waiting")).jobs
    assert waiting.waits_text == ""
