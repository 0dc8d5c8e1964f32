"""Sends flows: checks them as a whole, then has them stored."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from headrace.client.app import Send, SendMany
from headrace.client.flow import FlowJob
from headrace.client.gathering import BATCH
from headrace.client.job import Job
from headrace.client.session import Session
from headrace.client.shipment import Shipment, is_unique
from headrace.core.flow.flow import Node, plan
from headrace.core.job.ids import JobKey
from headrace.core.task.call import Call, Sent, Step
from headrace.errors import ConfigError, JobNotFound
from headrace.store.contract import Store


class Office:
    """What sending a flow needs of an app: `make` gives the handle of a job, `now` the time for
    envelopes, `through` wraps what each call is handed to, if anything does, and `together` what
    all of them are handed to."""

    def __init__(
        self,
        session: Session,
        make: Callable[[Call[Any], JobKey], Job[Any]],
        now: Callable[[Sequence[Call[Any]]], Awaitable[int]],
        through: Callable[[Send], Send] | None,
        together: Callable[[SendMany], SendMany],
    ) -> None:
        self.together = together
        self.session = session
        self.make = make
        self.now = now
        self.through = through


async def send_flow(office: Office, step: Step[Any]) -> FlowJob[Any]:
    """Send all calls that a step needs; when this returns, the store has them. What is wrong with
    them is found before anything is stored; if sending fails, what was stored is cancelled."""
    nodes = plan(step)
    by_call = {node.call: node for node in nodes}
    ends = [by_call[end] for end in step.ends]
    sent: list[FlowJob[Any]] = []

    async def send(calls: Sequence[Call[Any]]) -> list[Job[Any]]:
        _give_back(nodes, calls)
        sent.append(await _send_nodes(office, nodes, ends, step.gives_list))
        return [office.make(node.call, node.key) for node in nodes]

    await office.together(send)([node.call for node in nodes])
    if len(sent) != 1:
        raise ConfigError(f"a middleware must send a flow once, not {len(sent)} times")
    return sent[0]


def _give_back(nodes: Sequence[Node], calls: Sequence[Call[Any]]) -> None:
    """Let the nodes have what the app's middleware made of their calls."""
    if len(calls) != len(nodes):
        raise ConfigError(
            f"a flow of {len(nodes)} calls must stay one: a middleware made {len(calls)} of them"
        )
    for node, call in zip(nodes, calls, strict=True):
        node.call = call


async def _send_nodes(
    office: Office, nodes: Sequence[Node], ends: Sequence[Node], gives_list: bool
) -> FlowJob[Any]:
    if office.through is not None:
        for node in nodes:
            await _pass_through(office, office.through, node)
    _check_unique(nodes, None if gives_list else ends[0])
    outside = await _outside(office.session.store, nodes)
    now_ms = await office.now([node.call for node in nodes])
    standing = await Shipment(office.session, ends[0].key, now_ms).send(nodes, outside)
    if standing is not None:
        job = office.make(ends[0].call, standing)
        return FlowJob([job], [job], gives_list=False)
    jobs = {node: office.make(node.call, node.key) for node in nodes}
    return FlowJob(list(reversed(jobs.values())), [jobs[end] for end in ends], gives_list)


async def _pass_through(office: Office, through: Callable[[Send], Send], node: Node) -> None:
    """Let the app's middleware change the call. It is stored later, with the rest of the flow."""
    sent: list[Call[Any]] = []

    async def note(call: Call[Any]) -> Job[Any]:
        sent.append(call)
        return office.make(call, node.key)

    await through(note)(node.call)
    if len(sent) != 1:
        raise ConfigError(
            f"{node.call!r} is part of a flow: a middleware must send it once, "
            f"not {len(sent)} times"
        )
    node.call = sent[0]


def _check_unique(nodes: Iterable[Node], last: Node | None) -> None:
    """A job that stands for another cannot be waited for under its own key."""
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
            seen = await store.get(queue, [job.key for job in chunk])
            for job, snapshot in zip(chunk, seen, strict=True):
                if snapshot is None:
                    raise JobNotFound(job.id)
    return found


def _as_job(parent: Sent, call: Call[Any]) -> Job[Any]:
    if not isinstance(parent, Job):
        raise ConfigError(f"{call!r} can be after calls, flows and jobs, not after {parent!r}")
    return parent
