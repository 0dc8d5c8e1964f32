"""What a test asks about what was sent."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Any, TypeVar, overload

from headrace.admin.app import AdminApp
from headrace.client.task import Task
from headrace.client.topic.topic import Topic
from headrace.core.bounds import check_count
from headrace.errors import ConfigError
from headrace.testing.sent.expectation import Expectation, ExpectedTask, name_of
from headrace.testing.sent.sent import Sent, SentLog

E = TypeVar("E")


class SentChecks:
    """The part of the test kit that is about what was sent and published, in whichever way: by
    `enqueue` or `enqueue_many`, in flows, by schedules, by jobs, through an outbox once that is
    relayed. A job that was refused or was there already, being unique, is not counted."""

    app: AdminApp
    _sent_log: SentLog

    def sent(self, task: Task[..., Any] | str | None = None) -> list[Sent]:
        """The jobs that were sent, in order.

        Args:
            task: Only those of this task, or of the task of this name; all if left out.
        """
        jobs = self._sent_log.jobs()
        if task is None:
            return jobs
        name = name_of(self.app, task)
        return [each for each in jobs if each.task == name]

    def assert_sent(
        self,
        task: ExpectedTask,
        *args: Any,
        delay: float | timedelta | None = None,
        at: datetime | None = None,
        queue: str | None = None,
        key: str | None = None,
        priority: int | None = None,
        headers: Mapping[str, str] | None = None,
        tags: Collection[str] | None = None,
        expires: float | timedelta | datetime | None = None,
        count: int | None = None,
        **kwargs: Any,
    ) -> list[Sent]:
        """Fail unless a job was sent with these arguments and options. What is not given may be
        anything: `assert_sent(send_mail, to="ada@example.org")`. Returns the jobs that were.

        Args:
            task: The task, its name, or a call, which gives all arguments, also of a task that has
                one named as an option here: `assert_sent(report.call("mon", count=3), count=1)`.
            *args: Its first arguments.
            delay: Seconds, or a `timedelta`, until it may start; 0 for at once.
            at: When it may start.
            queue: The queue it was sent to.
            key: Its key.
            priority: From 0 to 100.
            headers: It has these, and may have more.
            tags: It has these, and may have more.
            expires: When it may no longer start: seconds or a `timedelta` from when it was sent, or
                a moment.
            count: Exactly this many such jobs; one or more if left out.
            **kwargs: More of its arguments, by name.
        """
        __tracebackhide__ = True
        expected = Expectation(self.app, task, args, kwargs)
        expected.expect(
            count,
            delay=delay,
            at=at,
            queue=queue,
            key=key,
            priority=priority,
            headers=headers,
            tags=tags,
            expires=expires,
        )
        jobs = self._sent_log.jobs()
        matching = expected.among(jobs)
        if count is not None and len(matching) != check_count("count", count, least=0):
            raise AssertionError(expected.miscounted(matching, count, jobs))
        if count is None and not matching:
            raise AssertionError(expected.missing(jobs))
        return matching

    def assert_not_sent(
        self,
        task: ExpectedTask,
        *args: Any,
        delay: float | timedelta | None = None,
        at: datetime | None = None,
        queue: str | None = None,
        key: str | None = None,
        priority: int | None = None,
        headers: Mapping[str, str] | None = None,
        tags: Collection[str] | None = None,
        expires: float | timedelta | datetime | None = None,
        **kwargs: Any,
    ) -> None:
        """Fail if a job was sent with these arguments and options.

        Args:
            task: As in `assert_sent`.
            *args: As in `assert_sent`.
            delay: As in `assert_sent`.
            at: As in `assert_sent`.
            queue: As in `assert_sent`.
            key: As in `assert_sent`.
            priority: As in `assert_sent`.
            headers: As in `assert_sent`.
            tags: As in `assert_sent`.
            expires: As in `assert_sent`.
            **kwargs: As in `assert_sent`.
        """
        __tracebackhide__ = True
        expected = Expectation(self.app, task, args, kwargs)
        expected.expect(
            delay=delay,
            at=at,
            queue=queue,
            key=key,
            priority=priority,
            headers=headers,
            tags=tags,
            expires=expires,
        )
        jobs = self._sent_log.jobs()
        if matching := expected.among(jobs):
            raise AssertionError(expected.miscounted(matching, 0, jobs))

    @overload
    def published(self, topic: Topic[E]) -> list[E]: ...
    @overload
    def published(self, topic: str) -> list[Any]: ...
    def published(self, topic: Topic[Any] | str) -> list[Any]:
        """The events that were published to a topic, in order.

        Args:
            topic: The topic, or its name.
        """
        name = topic.name if isinstance(topic, Topic) else topic
        if name not in self.app.topics:
            known = ", ".join(self.app.topics) or "none"
            raise ConfigError(f"the app has no topic {name!r}; it has {known}")
        return [event.data for event in self._sent_log.events(name)]
