"""What `@app.task(...)` and `app.defaults(...)` declare; a wrong word fails where it is written."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from headrace.core.job.retry import Retry
from headrace.core.payload.packing import PayloadOptions
from headrace.core.task.options import TaskOptions, check_defaults, with_defaults
from headrace.errors import ConfigError


def half(number: int) -> int:
    return number // 2


async def double(number: int) -> int:
    return number * 2


class Halver:
    def __call__(self, number: int) -> int:
        return number // 2

    def halve(self, number: int) -> int:
        return number // 2


def test_defaults_are_options_that_tasks_can_have() -> None:
    given = {"queue": "mail", "priority": 5, "retry": Retry(2), "timeout": None, "result_ttl": 5}
    checked = check_defaults(given)
    assert checked == given
    assert checked is not given
    assert check_defaults({}) == {}


def test_a_default_that_does_not_exist_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"app\.defaults\(\) has no 'batch'; it takes keep_done"):
        check_defaults({"queue": "mail", "batch": 5})


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("queue", ""),
        ("queue", "billing@orders"),
        ("priority", 101),
        ("retry", 3),
        ("timeout", 0),
        ("on_timeout", "give up"),
        ("max_defers", -1),
        ("result_ttl", None),
        ("keep_done", "always"),
        ("keep_done", timedelta(seconds=-1)),
    ],
)
def test_a_bad_default_is_refused_as_a_default_and_not_as_that_of_a_task(
    option: str, value: object
) -> None:
    with pytest.raises(ConfigError, match=rf"^app\.defaults\(\): {option}\b"):
        check_defaults({option: value})


def test_a_task_has_the_defaults_that_it_does_not_say_otherwise() -> None:
    defaults = {"queue": "mail", "timeout": 5, "max_defers": 3, "retry": Retry(2)}
    said = {"queue": "fast", "retry": None, "timeout": None}
    assert with_defaults(said, defaults) == {
        "queue": "fast", "timeout": None, "max_defers": 3, "retry": Retry(2),
    }  # fmt: skip
    assert with_defaults(said, {}) is said


@pytest.mark.parametrize("what", [Halver, Halver(), 5, None, "half"])
def test_a_task_is_a_function_and_nothing_else(what: object) -> None:
    with pytest.raises(ConfigError, match=r"@app\.task goes on a function, not on"):
        TaskOptions.of_function(what, {})


@pytest.mark.parametrize(
    ("function", "name", "run_in"),
    [(half, "half", "thread"), (double, "double", "loop"), (Halver().halve, "halve", "thread")],
)
def test_a_function_gives_its_task_a_name_and_a_place(
    function: Callable[..., Any], name: str, run_in: str
) -> None:
    options = TaskOptions.of_function(function, {"name": None, "retry": None})
    assert (options.name, options.run_in, options.retry) == (name, run_in, Retry())
    given = TaskOptions.of_function(function, {"name": "other", "run_in": "process"})
    assert (given.name, given.run_in) == ("other", "process")


def test_an_option_that_does_not_exist_is_refused_by_the_name_of_it() -> None:
    with pytest.raises(ConfigError, match=r"app\.task\(\) has no 'timout': did you mean 'timeout'"):
        TaskOptions.of_function(half, {"timout": 5})


def test_a_task_is_on_no_queue_of_a_topic() -> None:
    with pytest.raises(ConfigError, match="task 'half': queue 'billing@orders' contains '@'"):
        TaskOptions.of_function(half, {"queue": "billing@orders"})


@pytest.mark.parametrize("keep", [0, 500, timedelta(days=1), (500, timedelta(days=1))])
def test_a_task_may_say_what_is_kept_of_its_ended_jobs(keep: Any) -> None:
    assert TaskOptions.of_function(half, {"keep_done": keep}).keep_done == keep


@pytest.mark.parametrize("keep", [-1, True, 1.5, "7d", (500, 7), (timedelta(1),)])
def test_what_cannot_be_kept_is_refused_by_the_name_of_the_task(keep: object) -> None:
    with pytest.raises(ConfigError, match="task 'half': keep_done"):
        TaskOptions.of_function(half, {"keep_done": keep})


@pytest.mark.parametrize(
    ("codec", "problem"),
    [
        ("raw", "codec 'raw' is for events"),
        ("protobuf", "codec 'protobuf' is for events"),
        ("yaml", "there is no codec 'yaml': use 'msgpack', 'json'"),
        (object(), "a codec is a name, or an object"),
    ],
)
def test_a_codec_that_arguments_cannot_travel_by_is_refused(codec: object, problem: str) -> None:
    with pytest.raises(ConfigError, match=f"task 'half': {problem}"):
        TaskOptions.of_function(half, {"codec": codec})
    with pytest.raises(ConfigError, match=f"task 'half': {problem}"):
        TaskOptions.of_function(half, {}, PayloadOptions(codec=codec))  # type: ignore[arg-type]


def test_a_task_has_the_codec_of_its_app_unless_it_says_otherwise() -> None:
    app = PayloadOptions(codec="json")
    assert TaskOptions.of_function(half, {}, app).payloads is app
    assert TaskOptions.of_function(half, {"codec": "msgpack"}, app).payloads.codec == "msgpack"


def test_a_wait_needs_a_batch_and_a_batch_no_process() -> None:
    with pytest.raises(ConfigError, match="task 'half': max_wait needs batch="):
        TaskOptions.of_function(half, {"max_wait": 3})
    with pytest.raises(ConfigError, match="task 'half': batch does not go with run_in='process'"):
        TaskOptions.of_function(half, {"batch": 5, "run_in": "process"})
    made = TaskOptions.of_function(half, {"batch": 5, "max_wait": timedelta(seconds=3)})
    assert (made.batch, made.max_wait) == (5, 3.0)


@pytest.mark.parametrize("key", ["eu", 5, True])
def test_the_key_of_a_rate_is_a_function(key: object) -> None:
    with pytest.raises(ConfigError, match="task 'half': rate_key must be a function"):
        TaskOptions.of_function(half, {"rate": "5/s", "rate_key": key})
