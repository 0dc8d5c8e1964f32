"""`app.flow(id)`: the handle of a flow that another process sent."""

from __future__ import annotations

import pytest

from headrace import ConfigError, FlowCounts, Headrace, JobFailed, JobNotFound, State, chain, group
from tests.tour.test_flows_go_on import Mill


@pytest.fixture
def mill(app: Headrace) -> Mill:
    return Mill(app)


async def test_a_flow_is_resumed_from_its_id_in_another_process(app: Headrace, mill: Mill) -> None:
    numbers = group(mill.grind.call(number) for number in (1, -2, 3))
    flow = await app.enqueue(chain(numbers, mill.total.call(), mill.show.call()))
    found = app.flow(flow.id)
    assert await found.status() is State.WAITING
    async with app.worker():
        with pytest.raises(JobFailed):
            await found.result(timeout=20)
        assert await found.counts() == FlowCounts(done=2, dead=3)
        assert await found.status() is State.DEAD
        mill.broken = False
        assert await found.resume() == 1
        assert await found.resume() == 0
        assert await found.result(timeout=20) == "it is 6"
    assert await app.flow(flow.id).counts() == FlowCounts(done=5)
    assert (await app.flow(flow.id).info()).state is State.DONE
    with pytest.raises(ConfigError, match=f"whose id is {flow.id}"):
        await app.flow(flow.jobs[0].id).resume()
    alone = await mill.grind.enqueue(1)
    with pytest.raises(ConfigError, match="is in no flow"):
        await app.flow(alone.id).counts()
    with pytest.raises(JobNotFound):
        await app.flow("nothing").cancel()


async def test_a_group_is_cancelled_from_its_id(app: Headrace, mill: Mill) -> None:
    both = await app.enqueue(
        group([mill.grind.call(1), mill.total.options(delay=60).call([1]), mill.grind.call(2)])
    )
    found = app.flow(both.id)
    assert (await found.counts()).total == 3
    assert await found.cancel()
    assert await found.counts() == FlowCounts(cancelled=3)
    assert await both.counts() == FlowCounts(cancelled=3)


async def test_a_group_whose_first_job_is_done_and_forgotten_is_found(
    app: Headrace, mill: Mill
) -> None:
    sent = await app.enqueue(group([mill.grind.call(1), mill.grind.call(-2)]))
    async with app.worker():
        await sent.ends[0].result(timeout=20)
        with pytest.raises(JobFailed):
            await sent.ends[1].result(timeout=20)
        await app.admin.forget(sent.id)
        mill.broken = False
        assert await app.flow(sent.id).resume() == 1
        assert await sent.ends[1].result(timeout=20) == 2
    assert await app.flow(sent.id).status() is State.DONE


async def test_the_admin_resumes_the_flow_of_any_of_its_jobs(app: Headrace, mill: Mill) -> None:
    flow = await app.enqueue(chain(mill.grind.call(-1), mill.show.call()))
    async with app.worker():
        with pytest.raises(JobFailed):
            await flow.result(timeout=20)
        mill.broken = False
        assert await app.admin.by("ann").resume_flow(flow.jobs[0].id) == 1
        assert await flow.result(timeout=20) == "it is 1"
    (action,) = await app.admin.actions()
    assert (action.verb, action.target) == ("resume_flow", flow.jobs[0].id)
    alone = await mill.grind.enqueue(1)
    with pytest.raises(ConfigError, match="is in no flow"):
        await app.admin.resume_flow(alone.id)
