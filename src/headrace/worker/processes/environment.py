"""The variables that a worker, and what it starts, does not have: the dashboard's, which are its
passwords, token and keys.

A task runs what others wrote, and starts programs of others. Whoever reads these variables there
could log in to the dashboard.
"""

from __future__ import annotations

import os

DASHBOARD = "HEADRACE_DASHBOARD_"
"""What the names of all variables of the dashboard begin with."""


def passed_on() -> dict[str, str]:
    """The variables of this process for one that runs tasks."""
    return {name: it for name, it in os.environ.items() if not name.startswith(DASHBOARD)}


def forget_dashboard() -> None:
    """Remove the dashboard's variables from this process, so that no task and no program that a
    task starts finds them."""
    for name in [name for name in os.environ if name.startswith(DASHBOARD)]:
        del os.environ[name]
