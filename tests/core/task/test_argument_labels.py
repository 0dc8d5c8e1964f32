"""Constraints that were made of a job's arguments are told from those that its call gave."""

from __future__ import annotations

from typing import Any

from headrace import Headrace
from headrace.client.task import Task
from headrace.core.job.constraints import Constraints
from headrace.core.task.argument_labels import GivenArguments


def tasks() -> tuple[Task[..., Any], Task[..., Any], Task[..., Any]]:
    app = Headrace("memory://")

    @app.task(
        name="send", unique=lambda to, **_: to, rate="1/s", rate_key=lambda to, **_: f"rate {to}"
    )
    async def send(to: str, text: str = "") -> None: ...

    @app.task(name="post", unique=True)
    async def post(to: str, text: str = "") -> None: ...

    @app.task(name="index", batch=2, batch_key="shop")
    async def index(items: list[dict[str, str]]) -> None: ...

    return send, post, index


def given(*args: Any, **kwargs: Any) -> list[GivenArguments]:
    return [(args, kwargs)]


def made(task: Task[..., Any], *args: Any, **kwargs: Any) -> Constraints:
    call = task.call(*args, **kwargs)
    assert call.labels is not None
    return task.constraints.of_job("default", call.options, call.labels)


def test_an_option_that_makes_another_text_of_the_new_arguments_is_named() -> None:
    send, post, index = tasks()
    labels = send.constraints.of_arguments
    kept = made(send, "ann")
    assert labels.changed(kept, given("ann"), given("bob")) == "unique"
    assert labels.changed(kept, given("ann"), given("ann", text="new")) is None
    limits = Constraints(limits=kept.limits)
    assert labels.changed(limits, given("ann"), given("bob")) == "rate_key"
    by_all = post.constraints.of_arguments
    assert by_all.changed(made(post, "ann"), given("ann"), given("ann", "new")) == "unique"
    assert by_all.changed(made(post, "ann"), given("ann"), given("ann", "")) is None
    one, two = {"shop": "one"}, {"shop": "two"}
    batches = index.constraints.of_arguments
    assert batches.changed(made(index, one), given(one), given(two)) == "batch_key"
    assert batches.changed(made(index, one), given(one), given({**one, "n": "1"})) is None


def test_what_the_call_gave_or_nothing_holds_is_not_changed() -> None:
    send, post, _ = tasks()
    labels = send.constraints.of_arguments
    own = made(send.options(unique="mine", rate_key="ours"), "ann")
    assert labels.changed(own, given("ann"), given("bob")) is None
    debounced = Constraints(unique="send:ann", debounced=True)
    assert labels.changed(debounced, given("ann"), given("bob")) is None
    assert labels.changed(Constraints(), given("ann"), given("bob")) is None
    text = made(post.options(unique="mine"), "ann")
    assert post.constraints.of_arguments.changed(text, given("ann"), given("bob")) is None


def test_where_a_text_came_from_is_not_guessed() -> None:
    send, post, _ = tasks()
    # No text can be made of the old arguments: it may have been made of them all the same.
    kept = made(send, "ann")
    assert send.constraints.of_arguments.changed(kept, given(), given("bob")) == "unique"
    assert send.constraints.of_arguments.changed(kept, given(), given("ann")) is None
    digest = Constraints(unique="0" * 32)
    labels = post.constraints.of_arguments
    assert labels.changed(digest, given("ann"), given("bob")) == "unique"
    assert labels.changed(digest, given("ann"), given("ann")) is None


def test_of_arguments_without_the_first_only_a_name_of_all_others_is_made() -> None:
    send, post, _ = tasks()
    labels = post.constraints.of_arguments
    kept = Constraints(unique="0" * 32)
    assert labels.changed(kept, given("a"), given("b"), lacks_first_argument=True) == "unique"
    assert labels.changed(kept, given("a"), given("a"), lacks_first_argument=True) is None
    own = made(send.options(unique="mine", rate_key="ours"), "ann")
    changed = send.constraints.of_arguments.changed(
        own, given("a"), given("b"), lacks_first_argument=True
    )
    assert changed is None
