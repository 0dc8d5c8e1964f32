"""`ClientApp`: what tasks, topics and schedules need of the app that declares them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

from headrace.client.context import CurrentRun
from headrace.client.flow_job import FlowJob
from headrace.client.job import Job
from headrace.client.send.outgoing import Outgoing, OutgoingApp
from headrace.client.topic.new_declarations import NewDeclarations
from headrace.core.payload.packing import PayloadOptions
from headrace.core.task.process_lifespan import ProcessLifespan
from headrace.core.task.queue_settings import QueueSettings


class ClientApp(OutgoingApp, Protocol):
    """An app as its tasks, topics and schedules see it. `Headrace` is one."""

    @property
    def queue_settings(self) -> Mapping[str, QueueSettings]: ...

    @property
    def payloads(self) -> PayloadOptions:
        """The codec of tasks and topics that have none of their own, and so on."""
        ...

    @property
    def process_lifespan_declared(self) -> ProcessLifespan | None: ...

    @property
    def new_declarations(self) -> NewDeclarations: ...

    @property
    def outgoing(self) -> Outgoing:
        """Sends through the app's middleware."""

    def job(self, id: str) -> Job[Any]:
        """The handle of a job whose id is known."""
        ...

    def flow(self, id: str) -> FlowJob[Any]:
        """The handle of a flow whose id is known."""
        ...

    def enter_middleware(self, run: CurrentRun) -> AbstractContextManager[object]:
        """Enter every middleware's `within`, around a function in a task process."""
        ...
