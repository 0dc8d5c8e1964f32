"""What a test expects to have been sent, and how what was sent differs from it."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from headrace.admin.app import AdminApp, caller_parameters
from headrace.client.task import Task
from headrace.client.topic.subscription import Subscription
from headrace.core.clock import to_datetime
from headrace.core.job.envelope import decode_envelope
from headrace.core.task.call import Call
from headrace.core.task.send_options import SendOptions
from headrace.errors import ArgumentError, ConfigError
from headrace.testing.sent.sent import Sent, arguments_by_name, bound, shown

_LISTED = 5
_OPTIONS = "are delay, at, queue, key, priority, headers, tags, expires and count"

ExpectedTask = Task[..., Any] | Call[Any] | str


class Expectation:
    """A task, arguments by name, and options. Arguments and options that are not given may be
    anything. A call gives all of its arguments."""

    def __init__(
        self, app: AdminApp, task: ExpectedTask, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> None:
        self.name = name_of(app, task.task if isinstance(task, Call) else task)
        self._task = app.tasks[self.name]
        self._reserved: Collection[str] = ()
        """Arguments that are named as options here."""
        self.options: dict[str, Any] = {}
        if isinstance(task, Call):
            self._expect_call(app, task, bool(args or kwargs))
            return
        self._reserved = caller_parameters(self._task)
        self.arguments = self._by_name(args, kwargs)
        if isinstance(task, Task):
            self.options = _given(task._sending)

    def expect(self, count: int | None = None, **options: Any) -> None:
        """Expect these options too, those that are not None; `count` is not looked at here."""
        given = {name: value for name, value in options.items() if value is not None}
        for name in given if count is None else (*given, "count"):
            if name in self._reserved:
                raise ConfigError(
                    f"task {self.name!r} has an argument {name!r}: to say which is meant, give a "
                    f"call, as assert_sent({self.name}.call(…), {name}=…), or look at sent()"
                )
        self.options |= given

    def among(self, sent: Sequence[Sent]) -> list[Sent]:
        """Those that are as expected."""
        return [each for each in sent if not self.differences(each)]

    def differences(self, sent: Sent) -> list[str]:
        """How it differs, a text for each argument and option that does."""
        if sent.task != self.name:
            return [f"it is {sent.task!r}"]
        return [*self._other_arguments(sent), *self._other_options(sent)]

    def _other_arguments(self, sent: Sent) -> list[str]:
        found: list[str] = []
        for name, value in self.arguments.items():
            if name not in sent.arguments:
                found.append(f"{name} is missing")
            elif not self._is_same(name, value, sent.arguments[name]):
                found.append(f"{name}={shown(sent.arguments[name])}, not {shown(value)}")
        return found

    def _other_options(self, sent: Sent) -> list[str]:
        return [
            f"{name}={shown(_there(sent, name, value))}, not {shown(value)}"
            for name, value in self.options.items()
            if not _is_option(name, value, _there(sent, name, value))
        ]

    def _distance(self, sent: Sent) -> tuple[int, int]:
        """Arguments say more of what was meant than options."""
        return len(self._other_arguments(sent)), len(self._other_options(sent))

    def __str__(self) -> str:
        given = {**self.arguments, **self.options}
        return ", ".join(f"{name}={shown(value)}" for name, value in given.items())

    # What is said if it was not met

    def missing(self, sent: Sequence[Sent]) -> str:
        """That nothing was sent as expected, with the nearest that was."""
        said = f" with {self}" if str(self) else ""
        own = [each for each in sent if each.task == self.name]
        if not own:
            return f"{self.name!r} was not sent{said}{_others(sent)}"
        nearest = sorted(own, key=self._distance)
        lines = [f"{each!r}\n      {'; '.join(self.differences(each))}" for each in nearest]
        return f"{self.name!r} was not sent{said}; nearest first, sent were:{_listed(lines)}"

    def miscounted(self, matching: Sequence[Sent], count: int, sent: Sequence[Sent]) -> str:
        """That as many were sent as expected, but not `count`."""
        if not matching:
            return self.missing(sent)
        said = f" with {self}" if str(self) else ""
        if count == 0:
            return f"{self.name!r} was sent{said}, and should not have been:{_listed(matching)}"
        sent_so = f"{self.name!r} was sent {_times(len(matching))}{said}"
        return f"{sent_so}, not {_times(count)}:{_listed(matching)}"

    # How it is read

    def _expect_call(self, app: AdminApp, call: Call[Any], more: bool) -> None:
        if more:
            raise ConfigError("a call has its arguments: give a call, or a task and arguments")
        given = call.with_options(SendOptions(overrides=call.options.overrides))
        self.arguments = arguments_by_name(app, decode_envelope(given.parcel(0).envelope))
        self.options = _given(call.options)

    def _by_name(self, args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
        try:
            return bound(self._task, args, kwargs)
        except TypeError as error:
            takes = ", ".join(caller_parameters(self._task)) or "none"
            problem = f"{error}; its arguments are {takes}; options here {_OPTIONS}"
            raise ArgumentError(self.name, problem) from None

    def _is_same(self, name: str, expected: Any, there: Any) -> bool:
        if _equal(expected, there):
            return True
        signature = self._task.signature
        kind = signature._hints.get(name, Any)
        try:
            return _equal(signature.form.decoder(kind)(signature.form.encode(expected)), there)
        except Exception:
            # It cannot travel: an object of the test that compares in its own way.
            return False


def name_of(app: AdminApp, task: object) -> str:
    """The name of a task; a `ConfigError` if it is none, or could not be meant."""
    if isinstance(task, Subscription):
        raise ConfigError(f"{task!r} is sent no jobs: published({task.topic.name!r}) lists events")
    if isinstance(task, str):
        if task not in app.tasks:
            near = difflib.get_close_matches(task, app.tasks, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(app.tasks)}"
            raise ConfigError(f"the app has no task {task!r}; {hint}")
        return task
    if not isinstance(task, Task):
        raise ConfigError(f"a task, a call of it or its name is expected, not {task!r}")
    if app.tasks.get(task.name) is None:
        raise ConfigError(
            f"the app under test has no {task!r}: it is a task of another app, which is not"
        )
    return task.name


def _given(options: SendOptions) -> dict[str, Any]:
    """What `task.options(...)` says, by the names of `Sent`."""
    overrides = options.overrides
    given: dict[str, Any] = {
        "id": options.id,
        "queue": options.queue,
        "delay": None if options.delay_ms is None else options.delay_ms / 1000,
        "at": None if options.at_ms is None else to_datetime(options.at_ms),
        "key": options.key or None,
        "priority": options.priority,
        "headers": overrides.headers or None,
        "tags": overrides.tags or None,
        "expires": None if options.expires_in_ms is None else options.expires_in_ms / 1000,
    }
    if options.expires_at_ms is not None:
        given["expires"] = to_datetime(options.expires_at_ms)
    return {name: value for name, value in given.items() if value is not None}


def _equal(expected: Any, there: Any) -> bool:
    try:
        return bool(expected == there)
    except Exception:
        # Arrays and the like have no one answer.
        return False


def _there(sent: Sent, name: str, expected: Any) -> Any:
    """What was sent, in the form of what is expected."""
    there = getattr(sent, name)
    if name == "expires" and there is not None and isinstance(expected, (int, float, timedelta)):
        # From when it was sent, as in `options(expires=60)`.
        return (there - sent.at).total_seconds() + sent.delay
    return there


def _is_option(name: str, expected: Any, there: Any) -> bool:
    if name == "headers" and isinstance(expected, Mapping):
        return all(there.get(key) == value for key, value in expected.items())
    if name == "tags":
        return set(_checked_tags(expected)) <= set(there)
    if isinstance(expected, timedelta):
        return _equal(expected.total_seconds(), there)
    if isinstance(expected, datetime):
        if expected.tzinfo is None:
            raise ConfigError(f"{name}= must be an aware datetime: datetime(…, tzinfo=UTC)")
        # Stores keep milliseconds.
        return there is not None and bool(abs(expected - there) < timedelta(milliseconds=1))
    return _equal(expected, there)


def _checked_tags(tags: Any) -> Collection[str]:
    if isinstance(tags, str) or not isinstance(tags, Collection):
        raise ConfigError(f"tags= must be a list of texts, not {tags!r}")
    return tags


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _others(sent: Sequence[Sent]) -> str:
    if not sent:
        return "; nothing was sent"
    return f"; sent were:{_listed(sent)}"


def _listed(each: Sequence[object]) -> str:
    lines = [one if isinstance(one, str) else repr(one) for one in each[:_LISTED]]
    if len(each) > _LISTED:
        lines.append(f"and {len(each) - _LISTED} more")
    return "".join(f"\n  - {line}" for line in lines)
