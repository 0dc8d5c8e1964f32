"""`headrace dead`: list, show, replay, purge."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from headrace import Headrace
from headrace.admin import QueueInfo
from headrace.cli import main
from headrace.cli.filters import parse_since
from headrace.core.display import local_text, utc_text
from headrace.core.job.constraints import Constraints
from tests.admin.burying import bury, envelope, one_attempt
from tests.cli.programs import run_headrace


class Graveyard:
    """A store with dead jobs: `mail-1` and `mail-2` of one queue, `load-1` and bytes that are no
    job of another."""

    def __init__(self, folder: Path) -> None:
        self.url = f"sqlite:///{folder}/headrace.db"
        self.broken = ""
        asyncio.run(self._fill())

    async def _fill(self) -> None:
        async with Headrace(self.url) as app:
            evil = one_attempt("\x1b[2J wiped\nsecond line")
            await bury(app, [envelope("send", "ann", id="mail-1")], queue="mail", history=evil)
            await bury(app, [envelope("send", "bob", id="mail-2")], queue="mail", reason="expired")
            await bury(app, [envelope("load", id="load-1")], queue="data")
            (self.broken,) = await bury(app, [b"\xc1" * 80], queue="data", reason="malformed")

    def run(self, *arguments: str) -> Result:
        return CliRunner(env={"HEADRACE_URL": self.url}).invoke(main, ["dead", *arguments])

    def ids(self, *arguments: str) -> list[str]:
        result = self.run("list", "--json", *arguments)
        assert result.exit_code == 0, result.stderr
        return [job["id"] for job in json.loads(result.stdout)]

    @property
    def queues(self) -> dict[str, QueueInfo]:
        return {queue.name: queue for queue in asyncio.run(self._queues())}

    async def _queues(self) -> list[QueueInfo]:
        async with Headrace(self.url) as app:
            return await app.admin.queues()


@pytest.fixture
def dead(shop: Path) -> Graveyard:
    return Graveyard(shop)


def test_list_shows_the_latest_first(dead: Graveyard) -> None:
    result = dead.run("list")
    assert result.exit_code == 0
    heading, *rows = result.stdout.splitlines()
    assert heading.split() == ["DIED", "QUEUE", "ID", "TASK", "REASON", "ATTEMPTS", "ERROR"]
    order = [
        next(id for id in (dead.broken, "load-1", "mail-2", "mail-1") if id in r) for r in rows
    ]
    assert order == [dead.broken, "load-1", "mail-2", "mail-1"]


def test_list_prints_nothing_that_steers_the_terminal(dead: Graveyard) -> None:
    result = dead.run("list")
    assert "\x1b" not in result.stdout
    assert "ValueError: \\x1b[2J wiped" in result.stdout
    assert "second line" not in result.stdout


def test_list_filters(dead: Graveyard) -> None:
    assert dead.ids("-Q", "mail") == ["mail-2", "mail-1"]
    assert dead.ids("--reason", "expired") == ["mail-2"]
    assert dead.ids("--task", "load") == ["load-1"]
    assert dead.ids("--task", "send", "--since", "1h") == ["mail-2", "mail-1"]
    assert dead.ids("--since", "2999-01-01") == []
    assert dead.ids("--limit", "1") == [dead.broken]


def test_list_says_that_there_is_more(dead: Graveyard) -> None:
    assert "more than 3" in dead.run("list", "--limit", "3").stderr
    assert dead.run("list", "--limit", "4").stderr == ""


def test_groups_count_what_failed_alike(dead: Graveyard) -> None:
    result = dead.run("groups", "--queue", "mail")
    assert result.exit_code == 0, result.stderr
    heading, *rows, by_reason, by_error = result.stdout.splitlines()
    assert by_reason == "by reason: expired 1, rejected 1"
    assert by_error == "by error: ValueError 2"
    assert heading.split()[:4] == ["COUNT", "LATEST", "TASK", "REASON"]
    assert len(rows) == 2
    assert all(" send " in row for row in rows)
    found = json.loads(dead.run("groups", "--json").stdout)
    assert (found["total"], found["looked"], found["complete"]) == (4, 4, True)
    assert sorted(each["count"] for each in found["groups"]) == [1, 1, 1, 1]
    assert "of the latest 1, of 4 dead jobs" in dead.run("groups", "--scan", "1").stdout
    (kind,) = {each["error_type"] for each in found["groups"] if each["error_type"]}
    assert len(dead.ids("--error-type", kind)) == 4
    assert dead.ids("--error-type", f"{kind}s") == []


def test_list_of_nothing(dead: Graveyard) -> None:
    assert dead.run("list", "-Q", "elsewhere").stdout == "no dead jobs\n"


def test_list_as_json_has_stable_keys(dead: Graveyard) -> None:
    (job,) = json.loads(dead.run("list", "--task", "load", "--json").stdout)
    died = datetime.fromisoformat(job.pop("died"))
    assert died.tzinfo is not None
    assert job == {
        "id": "load-1",
        "queue": "data",
        "task": "load",
        "reason": "rejected",
        "error_type": "ValueError",
        "error_text": "no such user",
        "attempts": [
            {
                "number": 1,
                "started": "1970-01-01T00:16:40Z",
                "ended": "1970-01-01T00:16:42.500000Z",
                "worker": "worker-1",
                "error_type": "ValueError",
                "error_text": "no such user",
                "traceback": "trace",
            }
        ],
        "arguments": [],
        "event": None,
        "size": len(envelope("load", id="load-1")),
        "unreadable": [],
        "newer_format": False,
    }


def test_show_says_everything(dead: Graveyard) -> None:
    result = dead.run("show", "mail-1")
    assert result.exit_code == 0
    assert "\x1b" not in result.stdout
    lines = result.stdout.splitlines()
    size = len(envelope("send", "ann", id="mail-1"))
    for line in ("id         mail-1", "arguments  ['ann']", f"size       {size} bytes"):
        assert line in lines
    (attempt,) = (line for line in lines if line.startswith("attempt 1: "))
    assert attempt.endswith(", 2.5 s, on worker-1")
    assert lines[-4:] == ["  ValueError: \\x1b[2J wiped", "  second line", "", "  trace"]


def test_show_of_bytes_that_are_no_job(dead: Graveyard) -> None:
    lines = dead.run("show", dead.broken).stdout.splitlines()
    assert "task       (cannot be read)" in lines
    assert f"bytes      {'c1 ' * 64}…" in lines
    shown = json.loads(dead.run("show", dead.broken, "--json").stdout)
    assert (shown["task"], shown["arguments"], shown["size"]) == (None, None, 80)
    assert shown["envelope"].startswith("wcHB")


def test_show_of_a_job_that_is_not_dead_is_code_1(dead: Graveyard) -> None:
    result = dead.run("show", "elsewhere")
    assert (result.exit_code, result.stderr) == (1, "headrace: there is no dead job elsewhere\n")


def test_replay_by_id_and_again(dead: Graveyard) -> None:
    result = dead.run("replay", "mail-1", "load-1")
    assert (result.exit_code, result.stdout) == (0, "replayed 2 jobs\n")
    again = dead.run("replay", "mail-1", "mail-2", "--json")
    assert (again.exit_code, json.loads(again.stdout)) == (1, {"replayed": 1})
    assert again.stderr == "headrace: not dead (any more): 1 of the 2 jobs\n"
    assert (dead.queues["mail"].waiting, dead.queues["data"].waiting) == (2, 1)


def test_replay_by_filter(dead: Graveyard) -> None:
    assert dead.run("replay", "--task", "send", "--reason", "expired").exit_code == 0
    assert dead.ids() == [dead.broken, "load-1", "mail-1"]
    assert dead.run("replay", "-Q", "data").stdout == "replayed 2 jobs\n"
    assert dead.ids() == ["mail-1"]


def test_purge_needs_a_yes(dead: Graveyard) -> None:
    result = dead.run("purge", "--all")
    assert result.exit_code == 2
    assert "--yes" in result.stderr
    assert len(dead.ids()) == 4
    assert dead.run("purge", "-Q", "data", "--yes").stdout == "purged 2 jobs\n"
    assert dead.run("purge", "--all", "--yes", "--json").stdout == '{\n  "purged": 2\n}\n'
    assert dead.ids() == []


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "say what to"),
        (["shop:app"], " in shop:app: ids, --queue"),
        (["--all", "mail-1"], "--all means all"),
        (["--all", "-Q", "mail"], "--all means all"),
        (["mail-1", "--reason", "expired"], "not both"),
        (["--since", "yesterday"], "is not 30m"),
        (["-A", "shop:app", "--all", "--url", "memory://"], "not both"),
    ],
)
@pytest.mark.parametrize("verb", ["replay", "purge"])
def test_what_is_not_clear_is_refused(
    dead: Graveyard, verb: str, arguments: list[str], text: str
) -> None:
    result = dead.run(verb, "--yes", *arguments)
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert text in line
    assert len(dead.ids()) == 4


def _in_terminal(folder: Path, answer: str, *arguments: str) -> tuple[int, str]:
    """Exit code and stdout of the program with a terminal for its stdin."""
    done = run_headrace(folder, "dead", *arguments, answer=answer)
    return done.returncode, done.stdout


def test_in_a_terminal_purge_asks(dead: Graveyard, shop: Path) -> None:
    assert _in_terminal(shop, "n", "purge", "-Q", "mail")[0] == 1
    assert len(dead.ids()) == 4
    assert _in_terminal(shop, "y", "purge", "-Q", "mail") == (0, "purged 2 jobs\n")


def test_in_a_terminal_replay_asks_before_many(dead: Graveyard, shop: Path) -> None:
    assert _in_terminal(shop, "n", "replay", "--all")[0] == 1
    assert len(dead.ids()) == 4
    assert _in_terminal(shop, "n", "replay", "mail-1") == (0, "replayed 1 job\n")
    assert _in_terminal(shop, "n", "replay", "--all", "--yes") == (0, "replayed 3 jobs\n")


def _in_shop(folder: Path, *arguments: str) -> tuple[int, str]:
    done = run_headrace(folder, "dead", *arguments)
    return done.returncode, done.stdout + done.stderr


def test_an_app_may_be_named_first(dead: Graveyard, shop: Path) -> None:
    # The shop's namespace is another one, so it has no dead jobs.
    assert _in_shop(shop, "list", "shop:app") == (0, "no dead jobs\n")
    assert _in_shop(shop, "show", "shop:app", "mail-1")[0] == 1
    assert _in_shop(shop, "replay", "shop:app", "--all") == (0, "replayed 0 jobs\n")
    assert _in_shop(shop, "replay", "-A", "shop:app", "mail-1")[0] == 1
    assert _in_shop(shop, "list", "-A", "shop:app") == (0, "no dead jobs\n")
    # Also alone, so that nothing is done in a store that happens to be here.
    code, said = _in_shop(shop, "show", "shop:app")
    assert (code, "say which id in shop:app" in said) == (2, True)
    # Where the store is named, it can only be an id.
    alone = _in_shop(shop, "show", "shop:app", "--url", dead.url)
    assert alone == (1, "headrace: there is no dead job shop:app\n")


def test_since() -> None:
    assert parse_since("90s") == timedelta(seconds=90)
    assert parse_since("2d") == timedelta(days=2)
    assert parse_since("2026-01-02T03:04:05Z") == datetime.fromisoformat("2026-01-02T03:04:05Z")
    printed = datetime.fromisoformat("2026-01-02T03:04:05Z")
    assert parse_since(utc_text(printed)) == parse_since(local_text(printed)) == printed
    local = parse_since("2026-01-02")
    assert isinstance(local, datetime)
    assert (local.tzinfo is not None, local.hour) == (True, 0)


def test_list_filters_by_error_and_until(dead: Graveyard) -> None:
    assert dead.ids("--error", "WIPED") == ["mail-1"]
    assert dead.ids("--until", "1h") == []
    assert dead.ids("--until", "2999-01-01", "--error", "no such user", "-q", "mail") == ["mail-2"]
    assert dead.run("purge", "--error", "wiped", "--yes").stdout == "purged 1 job\n"
    assert "mail-1" not in dead.ids()


def test_a_text_is_searched_for_in_id_arguments_and_errors(dead: Graveyard) -> None:
    assert dead.ids("--search", "bob") == ["mail-2"]
    assert dead.ids("--search", "no such user", "-Q", "mail") == ["mail-2"]
    assert dead.run("replay", "--search", "MAIL-").stdout == "replayed 2 jobs\n"


SENDING = """
from headrace import Headrace

app = Headrace()


@app.task(queue="mail")
async def send(to: str, times: int = 1) -> None: ...
"""


def test_replay_with_other_arguments(dead: Graveyard, shop: Path) -> None:
    (shop / "post.py").write_text(SENDING)
    said = _in_shop(shop, "replay", "post:app", "mail-1", "--set", 'to="zoe"', "--set", "times=3")
    assert said == (0, "replayed 1 job\n")
    assert asyncio.run(_arguments(dead.url, "mail-1")) == {"to": "zoe", "times": 3}


async def _arguments(url: str, id: str) -> object:
    async with Headrace(url) as app:
        return (await app.admin.job(id)).arguments


@pytest.mark.parametrize(
    ("edit", "text"),
    [
        ("to=zoe", "the value of 'to' is not JSON: zoe (a text needs quotes"),
        ("to", "'to' is not name=value"),
        ("to=5", "job mail-1: argument 'to'"),
        ("who=5", "job mail-1: there is no argument 'who'"),
    ],
)
def test_an_edit_that_does_not_fit_is_one_line_and_sends_nothing(
    dead: Graveyard, shop: Path, edit: str, text: str
) -> None:
    (shop / "post.py").write_text(SENDING)
    code, said = _in_shop(shop, "replay", "post:app", "mail-1", "--set", edit)
    assert code == 2
    assert text in said
    assert "mail-1" in dead.ids()


def test_an_edit_of_what_makes_a_job_unique_is_one_line_and_sends_nothing(
    dead: Graveyard, shop: Path
) -> None:
    unique = 'queue="mail", unique=lambda to, times=1: to'
    (shop / "post.py").write_text(SENDING.replace('queue="mail"', unique))
    asyncio.run(_bury_unique(dead.url))
    code, said = _in_shop(shop, "replay", "post:app", "mail-3", "--set", 'to="zoe"')
    assert code == 2
    assert (
        "job mail-3 cannot be edited: unique= of task 'send' is made of its arguments, and differs "
        "with the new 'to'; enqueue a new job, and purge this one"
    ) in said
    assert "mail-3" in dead.ids()


async def _bury_unique(url: str) -> None:
    async with Headrace(url) as app:
        unique = Constraints(unique="send:ann")
        sent = envelope("send", "ann", id="mail-3")
        await bury(app, [sent], queue="mail", constraints=unique)


def test_a_job_of_a_newer_version_is_named_as_such(dead: Graveyard) -> None:
    asyncio.run(_bury_newer(dead.url))
    assert "(sent by a newer version)" in dead.run("list", "-q", "new").stdout
    assert "(sent by a newer version)" in dead.run("groups", "-q", "new").stdout
    lines = dead.run("show", "newer-1").stdout.splitlines()
    assert "task       (sent by a newer version)" in lines
    assert not [line for line in lines if "unreadable" in line or "cannot be read" in line]
    (found,) = json.loads(dead.run("list", "--json", "-q", "new").stdout)
    assert (found["newer_format"], found["unreadable"]) == (True, [])
    runner = CliRunner(env={"HEADRACE_URL": dead.url})
    why = runner.invoke(main, ["jobs", "why", "newer-1"]).stdout
    assert why.endswith("a worker of that version runs it once it is replayed.\n")
    assert dead.run("replay", "newer-1").stdout == "replayed 1 job\n"
    assert "(sent by a newer version)" in runner.invoke(main, ["jobs", "list"]).stdout
    shown = runner.invoke(main, ["jobs", "show", "newer-1"]).stdout
    assert "task       (sent by a newer version)" in shown


async def _bury_newer(url: str) -> None:
    newer = msgspec.msgpack.encode([99, b"=newer-1", {"new": "shape"}])
    async with Headrace(url) as app:
        await bury(app, [newer], queue="new", reason="newer_format")


def test_an_edit_needs_the_app_that_knows_the_task(dead: Graveyard) -> None:
    result = dead.run("replay", "mail-1", "--set", "to=5")
    assert result.exit_code == 2
    assert "this app has no task 'send'" in result.stderr


def test_an_id_that_was_never_there_is_not_said_to_be_alive(shop: Path) -> None:
    asyncio.run(_send_one(f"sqlite:///{shop}/headrace.db"))
    runner = CliRunner(env={"HEADRACE_URL": f"sqlite:///{shop}/headrace.db"})
    result = runner.invoke(main, ["dead", "replay", "alive", "never"])
    assert result.exit_code == 1
    assert result.stderr.splitlines() == [
        "headrace: not in the store (any more): never",
        "headrace: not dead (any more): 1 of the 2 jobs",
    ]


async def _send_one(url: str) -> None:
    async with Headrace(url) as app:

        @app.task
        async def work() -> None: ...

        await work.options(id="alive").enqueue()
