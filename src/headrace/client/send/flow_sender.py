"""Sends flows: checks them as a whole, then stores them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from headrace.client.flow_job import FlowJob
from headrace.client.job import Job, Send
from headrace.client.send.coalescer import BATCH
from headrace.client.send.flow_writer import FlowWriter, is_unique
from headrace.client.send.outgoing import Outgoing
from headrace.core.flow.flow import Node, check_step, plan
from headrace.core.task.call import Call, SentJob, Step
from headrace.errors import ConfigError, JobNotFound
from headrace.store.contract import Store


async def send_flow(outgoing: Outgoing, step: Step[Any]) -> FlowJob[Any]:
    """Send all calls that a step needs; when this returns, the store has them. Invalid flows are
    refused before anything is stored; if sending fails, the jobs stored so far are cancelled."""
    check_step("enqueue", step)
    nodes = plan(step)
    by_call = {node.call: node for node in nodes}
    ends = [by_call[end] for end in step.ends]
    sent: list[FlowJob[Any]] = []

    async def send(calls: Sequence[Call[Any]]) -> list[Job[Any]]:
        _give_back(nodes, calls)
        sent.append(await _send_nodes(outgoing, nodes, ends, step.gives_list))
        return [outgoing.job(node.call, node.job_id) for node in nodes]

    await outgoing.flow_sending(send)([node.call for node in nodes])
    if len(sent) != 1:
        raise ConfigError(f"a middleware must send a flow once, not {len(sent)} times")
    return sent[0]


def _give_back(nodes: Sequence[Node], calls: Sequence[Call[Any]]) -> None:
    """Give the nodes the calls that the app's middleware returned."""
    if len(calls) != len(nodes):
        raise ConfigError(
            f"a flow of {len(nodes)} calls must stay one: a middleware made {len(calls)} of them"
        )
    for node, call in zip(nodes, calls, strict=True):
        node.call = call


async def _send_nodes(
    outgoing: Outgoing, nodes: Sequence[Node], ends: Sequence[Node], gives_list: bool
) -> FlowJob[Any]:
    if outgoing.flow_call_sending is not None:
        for node in nodes:
            await _pass_through(outgoing, outgoing.flow_call_sending, node)
    _check_unique(nodes, None if gives_list else ends[0])
    session = await outgoing.session()
    outside = await _outside(session.store, nodes)
    now_ms = await outgoing.now_ms(session, [node.call for node in nodes])
    standing = await FlowWriter(session, ends[0].job_id, now_ms).send(nodes, outside)
    if standing is not None:
        job = outgoing.job(ends[0].call, standing)
        return FlowJob([job], [job], gives_list=False)
    jobs = {node: outgoing.job(node.call, node.job_id) for node in nodes}
    return FlowJob(list(reversed(jobs.values())), [jobs[end] for end in ends], gives_list)


async def _pass_through(outgoing: Outgoing, through: Callable[[Send], Send], node: Node) -> None:
    """Let the app's middleware change the call. It is stored later, with the rest of the flow."""
    sent: list[Call[Any]] = []

    async def note(call: Call[Any]) -> Job[Any]:
        sent.append(call)
        return outgoing.job(call, node.job_id)

    await through(note)(node.call)
    if len(sent) != 1:
        raise ConfigError(
            f"{node.call!r} is part of a flow: a middleware must send it once, "
            f"not {len(sent)} times"
        )
    node.call = sent[0]


def _check_unique(nodes: Iterable[Node], last: Node | None) -> None:
    """Refuse unique calls other than the last: their job may be an existing one, so nobody can wait
    for its id."""
    for node in nodes:
        call = node.call
        if not is_unique(node):
            continue
        if node is not last or node.children:
            raise ConfigError(
                f"{call!r} is unique: of a flow only the last call can be; "
                "use options(unique=False)"
            )
        if (
            call.labels
            and call.task_constraints
            and call.task_constraints.delay_ms(call.options, call.labels)
        ):
            raise ConfigError(f"{call!r} is debounced, which a call in a flow cannot be")


async def _outside(store: Store, nodes: Iterable[Node]) -> dict[Job[Any], str]:
    """The queues of the jobs, sent before, that calls of the flow wait for."""
    found: dict[Job[Any], str] = {}
    for node in nodes:
        for parent in node.parents:
            if not isinstance(parent, Node):
                job = _as_job(parent, node.call)
                found[job] = await job._found_queue()
    by_queue: dict[str, list[Job[Any]]] = {}
    for job, queue in found.items():
        by_queue.setdefault(queue, []).append(job)
    for queue, jobs in by_queue.items():
        for at in range(0, len(jobs), BATCH):
            chunk = jobs[at : at + BATCH]
            seen = await store.get(queue, [job.job_id for job in chunk])
            for job, snapshot in zip(chunk, seen, strict=True):
                if snapshot is None:
                    raise JobNotFound(job.id)
    return found


def _as_job(parent: SentJob, call: Call[Any]) -> Job[Any]:
    if not isinstance(parent, Job):
        raise ConfigError(f"{call!r} can be after calls, flows and jobs, not after {parent!r}")
    return parent
