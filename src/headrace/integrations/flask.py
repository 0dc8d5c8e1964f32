"""For Flask: views reach the app by `current_jobs()`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.app import Headrace
from headrace.errors import ConfigError

if TYPE_CHECKING:
    from flask import Flask

_NAME = "headrace"


def init_app(flask: Flask, jobs: Headrace) -> None:
    """Have views of this Flask application reach the app by `current_jobs()`. They send with
    `task.enqueue_sync(…)` and wait with `job.result_sync(…)`; connections are made by the first of
    them in each process, also after a fork.

    Args:
        flask: The Flask application.
        jobs: The Headrace app.
    """
    if not isinstance(jobs, Headrace):
        raise ConfigError(f"init_app() takes a Headrace app, not {jobs!r}")
    flask.extensions[_NAME] = jobs


def current_jobs() -> Headrace:
    """The app that was given to `init_app` of the current Flask application."""
    from flask import current_app

    found = current_app.extensions.get(_NAME)
    if found is None:
        raise ConfigError("this Flask application has no Headrace app: call init_app(flask, jobs)")
    app: Headrace = found
    return app
