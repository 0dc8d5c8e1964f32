"""Stands for the app of a task that no app includes yet."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, NoReturn

from headrace.client.context import CurrentRun
from headrace.client.flow_job import FlowJob
from headrace.client.job import Job
from headrace.client.portal import Portal
from headrace.client.send.outgoing import Outgoing
from headrace.client.session import ClientSession
from headrace.client.topic.new_declarations import NewDeclarations
from headrace.core.bounds import MAX_PAYLOAD
from headrace.core.clock import Clock, SystemClock
from headrace.core.job.ids import JobId
from headrace.core.payload.codecs import Form
from headrace.core.payload.packing import PLAIN_PAYLOADS, PayloadOptions
from headrace.core.task.process_lifespan import ProcessLifespan
from headrace.core.task.queue_settings import QueueSettings
from headrace.errors import ConfigError, ResultTimeout


class NotIncluded:
    """A `ClientApp` that lets a task be declared, and refuses all that needs a store."""

    def __init__(self, task: str, module: str, router: str) -> None:
        self._said = (
            f"task {task!r} of {module} is declared on {router}, which no app includes: call "
            "app.include(tasks) in the module that makes the app, and import that here too"
        )
        self.max_payload: int = MAX_PAYLOAD
        self.payloads: PayloadOptions = PLAIN_PAYLOADS
        self.queue_settings: Mapping[str, QueueSettings] = {}
        self.new_declarations = NewDeclarations()
        self.clock: Clock = SystemClock()
        self.process_lifespan_declared: ProcessLifespan | None = None

    def refuse(self) -> NoReturn:
        """`ConfigError` says what to do."""
        raise ConfigError(self._said)

    @property
    def outgoing(self) -> Outgoing:
        self.refuse()

    @property
    def portal(self) -> Portal:
        self.refuse()

    async def session(self) -> ClientSession:
        self.refuse()

    def result_form(self, content: str) -> Form | None:
        self.refuse()

    async def find_queue(self, job_id: JobId) -> str | None:
        self.refuse()

    async def result_timeout(self, job_id: str, queue: str, waited: float) -> ResultTimeout:
        self.refuse()

    def job(self, id: str) -> Job[Any]:
        self.refuse()

    def flow(self, id: str) -> FlowJob[Any]:
        self.refuse()

    def enter_middleware(self, run: CurrentRun) -> AbstractContextManager[object]:
        self.refuse()
