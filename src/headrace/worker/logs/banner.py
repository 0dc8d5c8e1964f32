"""What a worker says of itself when it starts, runs and ends."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping

from headrace.core.display import length_text, meant, plural
from headrace.core.version import VERSION
from headrace.core.workers import WORKERS, decode_record
from headrace.worker.app import WorkerApp
from headrace.worker.group_variables import strange_variables
from headrace.worker.logs.done_count import DoneCount
from headrace.worker.logs.failure_log import FailureLog
from headrace.worker.settings import WorkerSettings, known_tasks
from headrace.worker.worker_outcome import WorkerOutcome

log = logging.getLogger("headrace.worker")
supervisor_log = logging.getLogger("headrace.supervisor")


class Banner:
    """Names store, app and capacity, once each."""

    def __init__(self, app: WorkerApp, settings: WorkerSettings) -> None:
        self._app = app
        self._settings = settings
        self._began = time.monotonic()

    def starts(self) -> None:
        """Once the store is reached."""
        name = self._settings.name
        self._say_store(log, f"worker {name} starts", {"worker": name})

    def supervises(self, least: int, most: int) -> None:
        """For a process that keeps this many workers running."""
        number = f"{least}" if least == most else f"{least} to {most}"
        what = "process starts" if most == 1 else "processes start"
        counts = {"least": least, "most": most}
        self._say_store(supervisor_log, f"{number} worker {what}", counts)
        said, fields = self._capacity()
        supervisor_log.info("each works on %s", said, extra=fields)

    def _say_store(self, log: logging.Logger, what: str, fields: Mapping[str, object]) -> None:
        namespace, store = self._app.namespace, self._app.shown_url
        log.info(
            "headrace %s: %s on %s, namespace %s",
            *(VERSION, what, store, namespace),
            extra={**fields, "version": VERSION, "store": store, "namespace": namespace},
        )

        self._warn_of_strange_variables()

    def _warn_of_strange_variables(self) -> None:
        """A misspelt variable changes nothing; one may also be meant for another app."""
        topics = self._app.topics.values()
        groups = {one.wants.group for topic in topics for one in topic.subscriptions.values()}
        groups |= {one.wants.group for one in self._app.patterns}
        for variable in strange_variables(groups, os.environ):
            said = "this app has no group for the variable %s"
            log.warning(said, variable, extra={"variable": variable})

    async def warn_of_undeclared_queues(self) -> None:
        """A misspelt queue is read for ever, and nothing comes."""
        declared = self._app.queues
        undeclared = [name for name in self._settings.queues if name not in declared]
        known = await self._app.store.queues() if undeclared else ()
        for name in undeclared:
            if name not in known:
                log.warning(
                    "this app does not declare queue %r, and nothing was ever sent to it%s",
                    *(name, meant(name, [*declared, *known])),
                    extra={"queue": name},
                )

    async def warn_of_strangers(self) -> None:
        """Two programs that read one queue take each other's jobs, and know none of them."""
        own = known_tasks(self._app)
        records = map(decode_record, (await self._app.store.kv_all(WORKERS)).values())
        for record in filter(None, records):
            shared = [name for name in self._settings.queues if name in record.queues]
            if shared and own.has_none_of(record.tasks):
                log.warning(
                    "worker %s on %s reads queue %r in namespace %r too, and its tasks are all "
                    "others (%s): if it is another program, give each its own, with "
                    "Headrace(namespace=…) or HEADRACE_NAMESPACE",
                    *(record.name, record.host, shared[0], self._app.namespace),
                    ", ".join(record.tasks.some),
                    extra={"other_worker": record.name, "queue": shared[0]},
                )
                return

    def runs(self, *, brief: bool = False) -> None:
        """Once it takes jobs; `brief` if a supervisor has said the rest."""
        name = self._settings.name
        said, fields = self._capacity()
        extra = {"worker": name, **fields}
        log.info("worker %s runs %s", name, self._settings if brief else said, extra=extra)

    def _capacity(self) -> tuple[str, dict[str, object]]:
        settings, app = self._settings, self._app
        counts = {
            "tasks": len(app.tasks),
            "schedules": len(app.schedules.declared),
            "groups": len(settings.subscriptions),
            "broadcasts": len(settings.broadcasts),
        }
        slots, threads, processes = settings.concurrency, settings.threads, settings.processes
        said = [plural(n, what[:-1]) for what, n in counts.items() if n or what != "broadcasts"]
        room = (
            plural(slots, "slot"),
            plural(threads, "thread"),
            plural(processes, "process", "processes"),
        )
        works_on = str(settings) or self._awaited_groups()
        return f"{works_on} ({', '.join(said)}) with {', '.join(room)}", {
            "queues": [*settings.queues, *settings.group_queues],
            **counts,
            "slots": slots,
            "threads": threads,
            "processes": processes,
        }

    def _awaited_groups(self) -> str:
        """The groups of topics that are still to come, for a worker that has nothing else."""
        groups = (f"{one.wants.group}@{one.topic.name}" for one in self._app.patterns)
        return ", ".join(groups) or "broadcasts"

    def ended(
        self, outcome: WorkerOutcome, failures: FailureLog | None, done: DoneCount | None = None
    ) -> None:
        took = time.monotonic() - self._began
        attempts, deaths = (failures.attempts, failures.deaths) if failures else (0, 0)
        others = failures.in_store.count if failures else 0
        log.log(
            logging.WARNING if outcome.exit_code else logging.INFO,
            "worker %s ended after %s: %s; %s%s, %s dead%s",
            *(
                self._settings.name,
                length_text(took),
                outcome,
                f"{done.count:,} done, " if done else "",
                plural(attempts, "failed attempt"),
                f"{deaths + others:,}",
                f", {others:,} of them with another" if others else "",
            ),
            extra={
                "worker": self._settings.name,
                "exit_code": outcome.exit_code,
                "failed_attempts": attempts,
                "dead": deaths + others,
                "dead_with_another": others,
                **({"done": done.count} if done else {}),
            },
        )
