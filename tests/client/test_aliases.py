"""Names that tasks had before: what is refused, and who finds them."""

from __future__ import annotations

import pytest

from headrace import ConfigError, Headrace, Tasks


def test_a_name_belongs_to_one_task_in_either_order() -> None:
    app = Headrace("memory://")

    @app.task(aliases=["old"])
    def new() -> None: ...

    @app.task
    def other() -> None: ...

    def old() -> None: ...
    def third() -> None: ...

    with pytest.raises(ConfigError, match=r"two tasks answer to 'old': .*new and .*old; a job of"):
        app.task(old)
    for taken in ("old", "other"):
        with pytest.raises(ConfigError, match=f"two tasks answer to '{taken}'"):
            app.task(aliases=[taken])(third)
    assert sorted(app.tasks) == ["new", "other"]
    assert app.tasks["old"] is app.tasks.get("old") is app.tasks["new"]
    assert "old" in app.tasks
    assert app.tasks.get("gone") is None
    with pytest.raises(KeyError):
        app.tasks["gone"]


def test_what_cannot_be_included_leaves_no_alias_behind() -> None:
    app, tasks = Headrace("memory://"), Tasks(prefix="mail")

    @app.task(name="taken")
    def mine() -> None: ...

    @tasks.task(aliases=["send"])
    def first() -> None: ...

    @tasks.task(aliases=["taken"])
    def second() -> None: ...

    with pytest.raises(ConfigError, match="two tasks answer to 'taken'"):
        app.include(tasks)
    assert "send" not in app.tasks

    @app.task
    def send() -> None: ...

    assert app.tasks["send"] is send


def test_handlers_of_ends_are_renamed_with_their_task() -> None:
    app = Headrace("memory://")

    def apologise(job: object) -> None: ...

    @app.task(aliases=["old"], on_dead=apologise, keep_done=7)
    def new() -> None: ...

    assert app.tasks["old.on_dead"] is app.tasks["new.on_dead"]
    assert app.history_rules.of("old")[1] == app.history_rules.of("new")[1]
