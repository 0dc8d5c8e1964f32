"""What no sender of ours may send is refused by the worker that gets it, on every store."""

from __future__ import annotations

import msgspec
import pytest

from headrace import Headrace, JobFailed, State
from headrace.core import codec
from headrace.core.bounds import MAX_ENVELOPE_BESIDE_PAYLOAD, MAX_LABEL_BYTES, MAX_TAGS
from headrace.core.flow.graph import MOST, Graph, GraphJob, decode_graph
from headrace.core.job import ids
from headrace.core.job.envelope import Overrides, encode_envelope
from headrace.core.job.parcel import Parcel

MANY = tuple(f"tag-{number}" for number in range(MAX_TAGS + 1))


async def arrived(app: Headrace, overrides: Overrides) -> str:
    """The id of a job that was written to the store with these options."""
    job_id = ids.new_id()
    envelope = encode_envelope(job_id, "echo", codec.encode({"text": "a"}), overrides)
    await (await app.session()).store.append("default", [Parcel(job_id, envelope)])
    return ids.to_text(job_id)


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        (Overrides(tags=MANY), "it has 33 tags, at most 32 are allowed"),
        (Overrides(tags=("a" * 257,)), "a tag of it takes 257 bytes, at most 256 are allowed"),
        (
            Overrides(headers={"h": "a" * MAX_ENVELOPE_BESIDE_PAYLOAD}),
            r"it brings 65,\d\d\d bytes beside its data, at most 65,536 are allowed",
        ),
    ],
    ids=["many tags", "a long tag", "long headers"],
)
async def test_what_no_sender_may_send_is_dead_as_malformed(
    app: Headrace, overrides: Overrides, says: str
) -> None:
    @app.task
    async def echo(text: str) -> str:
        return text

    bad = await arrived(app, overrides)
    good = await arrived(app, Overrides(tags=("a" * MAX_LABEL_BYTES, *MANY[: MAX_TAGS - 1])))
    async with app.worker():
        with pytest.raises(JobFailed, match=says) as failed:
            await app.job(bad).result(timeout=30)
        assert await app.job(good).result(timeout=30) == "a"
    assert failed.value.reason == "malformed"
    assert await app.job(bad).status() == State.DEAD


@pytest.mark.parametrize(
    "parents", [(0,) * 10_000, (0, 0), (1,), (-1,)], ids=["many", "twice", "itself", "nobody"]
)
def test_a_graph_in_which_a_job_has_more_parents_than_there_are_is_not_drawn(
    parents: tuple[int, ...],
) -> None:
    jobs = (GraphJob(b"a", 0, 1), GraphJob(b"b", 0, 1, parents))
    assert decode_graph(msgspec.msgpack.encode(Graph(("default", "echo"), jobs))) is None


def test_a_graph_with_as_many_parents_as_there_are_is_drawn() -> None:
    jobs = [GraphJob(b"%d" % number, 0, 1) for number in range(MOST - 1)]
    whole = Graph(("default", "echo"), (*jobs, GraphJob(b"last", 0, 1, tuple(range(MOST - 1)))))
    assert decode_graph(msgspec.msgpack.encode(whole)) == whole
