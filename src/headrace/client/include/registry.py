"""The tasks of an app by name, and by the names that they had before."""

from __future__ import annotations

from typing import Any

from headrace.client.task import Task
from headrace.errors import ConfigError


class TaskRegistry(dict[str, Task[..., Any]]):
    """Tasks by their names, which alone are listed. A task is found under its aliases too."""

    def __init__(self) -> None:
        super().__init__()
        self._aliases: dict[str, str] = {}
        """Names by alias."""

    def check(self, task: Task[..., Any]) -> None:
        """`ConfigError` if another task has one of its names."""
        for name in task.declared.names:
            other: Task[..., Any] = self.get(name, task)
            if other is task:
                continue
            both = f"{_place(other)} and {_place(task)}"
            if _is_from_an_earlier_import(other, task):
                raise ConfigError(
                    f"task {name!r} is declared already: module {task.__module__!r} is imported "
                    "for the second time. If its first import failed, look for the error of that "
                    "one, and start the program again; modules with tasks cannot be reloaded"
                )
            if name == task.name == other.name:
                raise ConfigError(
                    f"two tasks are named {name!r}: {both}; give one of them @app.task(name=…), "
                    "or declare those of a module on a Tasks(prefix=…)"
                )
            raise ConfigError(
                f"two tasks answer to {name!r}: {both}; a job of that name can run only one, so "
                "take it out of the aliases=[…] of the other"
            )

    def add(self, task: Task[..., Any]) -> None:
        self[task.name] = task
        self._aliases.update(dict.fromkeys(task.declared.aliases, task.name))

    def get(self, name: str, default: Any = None) -> Any:
        """The task of this name or alias."""
        try:
            return self[name]
        except KeyError:
            return default

    def __missing__(self, alias: str) -> Task[..., Any]:
        return super().__getitem__(self._aliases[alias])

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or name in self._aliases

    def __delitem__(self, name: str) -> None:
        super().__delitem__(name)
        self._aliases = {alias: of for alias, of in self._aliases.items() if of != name}


def _place(task: Task[..., Any]) -> str:
    return f"{task.__module__}.{task.__qualname__}"


def _is_from_an_earlier_import(old: Task[..., Any], new: Task[..., Any]) -> bool:
    """Whether the same lines of a module made both."""
    if _place(old) != _place(new) or "<locals>" in new.__qualname__:
        return False
    lines = {getattr(each.function, "__code__", None) for each in (old, new)}
    return old.function is not new.function and len(lines) == 1 and None not in lines
