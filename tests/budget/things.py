"""Everything that people can ask for, by which it shows the most."""

from __future__ import annotations

from typing import Any

from headrace import Headrace, dashboard

KINDS = ("large", "compressed", "tagged", "parents", "huge", "tried")
_JSON = {"format": "json"}

Query = dict[str, str]

PAGES: dict[str, list[Query]] = {
    "/": [{}, {**_JSON, "list": "dead"}],
    "/queues": [{}, _JSON],
    "/queue": [{"name": "large"}],
    "/task": [{"name": "send", "queue": "large"}],
    "/jobs": [
        {},
        _JSON,
        {"text": "order=nowhere"},
        *({"queue": kind} for kind in KINDS),
        {"queue": "compressed", **_JSON},
        {"state": "done"},
        {"state": "done", **_JSON},
    ],
    "/job": [{"id": f"{state}-{kind}-0"} for kind in KINDS for state in ("waits", "dead")]
    + [{"id": "done-0"}, {"id": "dead-tried-0", **_JSON, "list": "attempts"}],
    "/find": [{"id": "dead-tried-0"}],
    "/dead": [
        {},
        _JSON,
        {"text": "nowhere"},
        {"tag": "tag-1"},
        {"by": "error"},
        {"by": "error", **_JSON},
        *({"queue": kind} for kind in KINDS),
        {"queue": "large", **_JSON},
    ],
    "/dead_job": [{"id": f"dead-{kind}-0"} for kind in KINDS],
    "/topics": [{}, _JSON],
    "/topic": [{"name": "orders"}, {"name": "orders", **_JSON, "list": "events"}],
    "/group": [{"topic": "orders", "group": "billing"}],
    "/workers": [{}, _JSON],
    "/schedules": [{}, _JSON],
    "/actions": [{}, _JSON],
    "/raw": [
        {"id": id, "part": part}
        for id, part in (
            ("dead-large-0", "arguments"),
            ("dead-huge-0", "arguments"),
            ("done-0", "result"),
            ("waits-large-0", "log"),
        )
    ],
    "/healthz": [{}],
    "/readyz": [{}],
    "/metrics": [{}],
}
# What is no page: the login, a page's own updates (which render the same views), what is shown
# of an action that goes on, and files.
NO_PAGES = {"/login", "/live", "/action", "/static/{path:path}"}

COMMANDS: dict[str, list[str]] = {
    "actions": [""],
    "check": [""],
    "dead groups": ["", "--json"],
    "dead list": ["", "--limit 200 --json", "-q large --search nowhere"],
    "dead show": [*(f"dead-{kind}-0" for kind in KINDS), "dead-huge-0 --json"],
    "jobs list": [
        "",
        "--limit 300 --json",
        "--state done --json",
        "--state dead",
        "-q large --search nowhere",
    ],
    "jobs show": [*(f"waits-{kind}-0" for kind in KINDS), "dead-tried-0 --json", "done-0 --json"],
    "jobs log": ["waits-large-0"],
    "jobs why": [f"dead-{kind}-0" for kind in KINDS],
    "jobs watch": ["done-0"],
    "jobs move": ["waits-large-1 --to other"],
    "jobs resume": ["dead-parents-0"],
    "jobs run-now": ["waits-large-2"],
    "jobs forget": ["done-1"],
    "jobs cancel": ["--tag nothing --yes", "waits-tagged-0"],
    "queues list": ["", "--json"],
    "queues pause": ["large"],
    "queues resume": ["large"],
    "queues remove": ["other --yes --force"],
    "schedules list": [""],
    "schedules pause": ["none"],
    "schedules resume": ["none"],
    "schedules run": ["none"],
    "schedules remove": ["none"],
    "stats": [""],
    "dead replay": ["dead-tried-0 dead-tagged-0", "-q compressed"],
    "dead purge": ["-q large --yes"],
    "topics list": [""],
    "topics show": ["orders"],
    "topics read": ["orders", "orders --json"],
    "topics keys": ["orders billing"],
    "topics free": ["orders billing key"],
    "topics publish": ["orders {}"],
    "topics rewind": ["orders billing --to start --yes"],
    "topics remove": ["orders billing --yes"],
    "workers list": [""],
    "workers stop": ["none"],
}


Things = dict[str, list[Any]]
"""Pages with their queries, and commands with their arguments."""


def things() -> Things:
    return {
        "pages": [(path, query) for path, queries in PAGES.items() for query in queries],
        "commands": _commands(),
    }


def those_of_all_queues() -> Things:
    """Those that look at every queue, each in one way."""
    paths = ("/", "/queues", "/jobs", "/dead")
    names = ("dead list", "queues list", "stats")
    return {
        "pages": [(path, {}) for path in paths],
        "commands": [*(name.split() for name in names), ["jobs", "list", "--state", "done"]],
    }


def _commands() -> list[list[str]]:
    return [[*name.split(), *given.split()] for name, calls in COMMANDS.items() for given in calls]


def paths_of_the_dashboard() -> set[str]:
    """The paths that the dashboard answers GET on."""
    site = dashboard(Headrace("memory://"), token="a token of sixteen")
    return {route.path for route in site.routes if "GET" in (route.methods or ())}  # type: ignore[attr-defined]


# They show nothing of the store, go on until they are stopped (they have tests of their own over a
# hostile store), or look into a database of the user's own.
NO_LOOKS = {"asyncapi", "bench", "dashboard", "demo", "dev", "top", "worker"} | {
    f"outbox {verb}" for verb in ("ddl", "failed", "relay", "retry")
}
