"""`Tasks`: a part of a program's tasks, declared without the app that includes it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from headrace.client.decorators import ScheduleArguments
from headrace.client.ends.handlers import ENDINGS, end_handler
from headrace.client.include.declaring import TaskDeclarations
from headrace.client.include.not_included import NotIncluded
from headrace.client.include.routed_task import RoutedTask
from headrace.client.task import Task
from headrace.core.bounds import check_name
from headrace.core.schedule.definition import Times, define
from headrace.core.task.options import TaskOptions, with_defaults
from headrace.errors import ConfigError


class RoutedTaskEntry(msgspec.Struct, frozen=True):
    """A task of a `Tasks`, as it is passed on to what includes that."""

    name: str
    task: RoutedTask[..., Any]
    options: Mapping[str, Any]
    modules: tuple[str, ...] = ()
    """Those that include it, from the inside."""

    def under(self, prefix: str, module: str = "") -> RoutedTaskEntry:
        modules = (*self.modules, module) if module else self.modules
        return RoutedTaskEntry(joined(prefix, self.name), self.task, self.options, modules)

    def with_defaults(self, defaults: Mapping[str, Any]) -> RoutedTaskEntry:
        options = with_defaults(self.options, defaults)
        return RoutedTaskEntry(self.name, self.task, options, self.modules)


class RoutedScheduleEntry(msgspec.Struct, frozen=True):
    """A schedule of a `Tasks`; its name is that of its task if it is None."""

    name: str | None
    task: Task[..., Any]
    arguments: ScheduleArguments
    times: Times

    def under(self, prefix: str, module: str = "") -> RoutedScheduleEntry:
        name = None if self.name is None else joined(prefix, self.name)
        return RoutedScheduleEntry(name, self.task, self.arguments, self.times)

    def with_defaults(self, defaults: Mapping[str, Any]) -> RoutedScheduleEntry:
        return self


Entry = RoutedTaskEntry | RoutedScheduleEntry


class Includer(Protocol):
    """What includes a `Tasks`: an app, or another `Tasks`."""

    def accept(self, entries: Sequence[Entry]) -> None:
        """Take these declarations: all of them, or none and `ConfigError`."""


class Tasks(TaskDeclarations):
    """Tasks and schedules of one part of a program, which need no app until `app.include(tasks)`.
    The names of all begin with `prefix` and a dot, so that two parts may each have a `send`:
    `mail.send` and `reports.send`. What is declared after the include is included too.

    Args:
        prefix: What the names of its tasks and schedules begin with, before a dot.
    """

    def __init__(self, prefix: str = "") -> None:
        super().__init__()
        self.prefix = check_prefix("Tasks()", prefix)
        self._entries: list[Entry] = []
        self._includer: Includer | None = None
        self._prefix_there = self._included_in = ""
        """The prefix that the includer adds, and the module that calls it."""

    def include(self, tasks: Tasks, *, prefix: str = "") -> None:
        """Take the tasks and schedules of another `Tasks`, with the prefix of this one and `prefix`
        before their names. The `defaults` of this one hold for what they do not say.

        Args:
            tasks: What is included; once only.
            prefix: One more prefix, between that of this one and theirs.
        """
        join(self, tasks, prefix)

    def accept(self, entries: Sequence[Entry]) -> None:
        """Take what another `Tasks` declares."""
        under = [each.under(self.prefix) for each in entries]
        self._add([each.with_defaults(self._task_defaults) for each in under])

    def _add(self, entries: Sequence[Entry]) -> None:
        if self._includer is not None:
            self._includer.accept(self._passed_on(entries))
        self._entries += entries

    def _passed_on(self, entries: Sequence[Entry]) -> list[Entry]:
        return [each.under(self._prefix_there, self._included_in) for each in entries]

    def make_task(
        self, function: Callable[..., Any], options: Mapping[str, Any]
    ) -> RoutedTask[..., Any]:
        given = with_defaults(options, self._task_defaults)
        own = given.get("name")
        name = joined(self.prefix, getattr(function, "__name__", "") if own is None else own)
        declared = TaskOptions.of_function(function, {**given, "name": name})
        app = NotIncluded(name, function.__module__, str(self))
        task = RoutedTask[..., Any](app, function, declared, given)
        for ending in ENDINGS:
            # Whether a handler that is a task fits is known when both are included.
            if not isinstance(given.get(ending), Task):
                end_handler(task, ending, given, {})
        return task

    def register(self, task: Task[..., Any]) -> None:
        if isinstance(task, RoutedTask):
            self._add([RoutedTaskEntry(task.name, task, task.given)])

    def prepare_schedule(
        self, task: Task[..., Any], name: str | None, arguments: ScheduleArguments, times: Times
    ) -> Callable[[], None]:
        call = task.scheduled_call(*arguments)
        full = None if name is None else joined(self.prefix, name)
        define(task.name if full is None else full, call, times, declared=True)
        return lambda: self._add([RoutedScheduleEntry(full, task, arguments, times)])

    @property
    def is_left_out(self) -> bool:
        """Whether it declares something, and nothing includes it."""
        return self._includer is None and bool(self._entries)

    def __repr__(self) -> str:
        return f"Tasks(prefix={self.prefix!r})" if self.prefix else "Tasks()"


def join(includer: Includer, tasks: Tasks, prefix: str) -> None:
    """What `include` does, called by it directly: it looks for the module of its caller."""
    if not isinstance(tasks, Tasks):
        raise ConfigError(
            f"include() takes a Tasks(), not {tasks!r}; modules are named where the app is made: "
            "Headrace(include=['shop.mail'])"
        )
    check_prefix("include()", prefix)
    if tasks._includer is not None:
        raise ConfigError(
            f"{tasks} is included already, and its tasks can send to one app only: make it in a "
            "function that is called for each app; for another store use app.override(url=…)"
        )
    above: object = includer
    while isinstance(above, Tasks):
        if above is tasks:
            raise ConfigError(f"{tasks} cannot be a part of itself")
        above = above._includer
    tasks._prefix_there, tasks._included_in = prefix, sys._getframe(2).f_globals["__name__"]
    includer.accept(tasks._passed_on(tasks._entries))
    tasks._includer = includer


def joined(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix else name


def check_prefix(where: str, prefix: object) -> str:
    """`prefix` if names may begin with it, which a dot follows."""
    if prefix == "":
        return ""
    text = check_name(f"{where}: prefix", prefix)
    if text.startswith(".") or text.endswith("."):
        raise ConfigError(f"{where}: prefix {text!r} is joined by a dot: write {text.strip('.')!r}")
    return text
