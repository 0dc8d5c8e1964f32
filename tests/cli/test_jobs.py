"""`headrace jobs`: list, show, why, log, cancel, watch."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from headrace import Headrace, ResultLost, Retry
from headrace.cli import main
from headrace.core.job.ids import to_id
from headrace.core.job.progress import Progress, encode_progress
from headrace.store.values import Report
from tests.admin.burying import bury, envelope
from tests.cli.conftest import Start
from tests.cli.programs import LONG, eventually, run_headrace


class Depot:
    """A store with jobs: `mail-1` waiting, `mail-2` scheduled and `mail-3` blocked in one queue,
    `load-1` waiting and `load-2` dead in another."""

    def __init__(self, folder: Path) -> None:
        self.url = f"sqlite:///{folder}/headrace.db"
        asyncio.run(self._fill())

    async def _fill(self) -> None:
        async with Headrace(self.url) as app:

            @app.task(queue="mail")
            async def send(to: str) -> None: ...

            @app.task(queue="data")
            async def load(text: str) -> None: ...

            await bury(app, [envelope("load", id="load-2")], queue="data")
            await send.options(id="mail-1", key="ann", priority=5).enqueue("ann")
            await send.options(id="mail-2", delay=3600).enqueue("bob")
            await send.options(id="mail-3", key="ann").enqueue("ann")
            await load.options(id="load-1").enqueue("\x1b[2J wiped")
            report = Report(to_id("load-1"), encode_progress(Progress(0.4)), ("one", "\x1b two"))
            await (await app.session()).store.report("data", [report])

    def run(self, *arguments: str) -> Result:
        return CliRunner(env={"HEADRACE_URL": self.url}).invoke(main, ["jobs", *arguments])

    def ids(self, *arguments: str) -> list[str]:
        result = self.run("list", "--json", *arguments)
        assert result.exit_code == 0, result.stderr
        return [job["id"] for job in json.loads(result.stdout)]


NO_JOBS = "no unfinished jobs: --state done, dead or cancelled lists those that have ended\n"


@pytest.fixture
def jobs(shop: Path) -> Depot:
    return Depot(shop)


def test_list_shows_all_that_live(jobs: Depot) -> None:
    result = jobs.run("list")
    assert result.exit_code == 0
    heading, *rows = result.stdout.splitlines()
    assert heading.split() == [
        "STATE", "QUEUE", "ID", "TASK", "PRIORITY", "ATTEMPTS", "SENT", "DETAIL",
    ]  # fmt: skip
    assert [row.split()[:3] for row in rows] == [
        ["waiting", "data", "load-1"],
        ["waiting", "mail", "mail-1"],
        ["blocked", "mail", "mail-3"],
        ["scheduled", "mail", "mail-2"],
    ]
    assert [row.split()[5] for row in rows] == ["0"] * 4, "none has begun"
    assert rows[2].endswith("key ann; waits for others of key 'ann'")
    assert re.search(r" due 20\d\d-\d\d-\d\d", rows[3])


def test_list_filters(jobs: Depot) -> None:
    assert jobs.ids("-Q", "data") == ["load-1"]
    assert jobs.ids("--state", "scheduled") == ["mail-2"]
    assert jobs.ids("--state", "dead") == ["load-2"]
    assert jobs.ids("--task", "send", "--search", "ANN") == ["mail-1", "mail-3"]
    assert len(jobs.ids("--since", "1h")) == 4
    assert jobs.ids("--since", "2999-01-01") == jobs.ids("--until", "1h") == []
    assert jobs.ids("-q", "elsewhere") == []


def test_an_empty_list_says_where_the_jobs_are(jobs: Depot) -> None:
    ended = ": --state done, dead or cancelled lists those that have ended\n"
    elsewhere = jobs.run("list", "-Q", "elsewhere")
    assert elsewhere.stdout == f"no unfinished jobs like that{ended}"
    assert jobs.run("list", "--namespace", "nobody").stdout == f"no unfinished jobs{ended}"
    assert jobs.run("list", "--state", "done").stdout == "no such jobs\n"


def test_list_says_that_there_is_more(jobs: Depot) -> None:
    assert "more than 3" in jobs.run("list", "--limit", "3").stderr
    assert jobs.run("list", "--limit", "4").stderr == ""
    assert jobs.ids("--limit", "1") == ["load-1"]


def test_list_as_json_has_stable_keys(jobs: Depot) -> None:
    (job,) = json.loads(jobs.run("list", "--state", "blocked", "--json").stdout)
    assert job.pop("sent")
    assert job == {
        "id": "mail-3",
        "queue": "mail",
        "task": "send",
        "state": "blocked",
        "priority": 0,
        "key": "ann",
        "due": None,
        "worker": None,
        "attempt": 1,
        "waits_for": "lane",
        "reason": None,
        "error": None,
        "progress": None,
        "ended": None,
        "waited": None,
        "took": None,
        "started": None,
        "arguments": {"to": "ann"},
        "lacks_first_argument": False,
        "newer_format": False,
        "tags": [],
    }


def test_what_has_ended_is_listed_and_forgotten(jobs: Depot) -> None:
    assert jobs.run("cancel", "mail-3").exit_code == 0
    (job,) = json.loads(jobs.run("list", "--state", "cancelled", "--json").stdout)
    assert (job["id"], job["task"], job["state"]) == ("mail-3", "send", "cancelled")
    assert job["ended"]
    shown = jobs.run("show", "mail-3").stdout
    assert "task       send" in shown
    assert "ended      " in shown
    result = jobs.run("forget", "mail-3")
    assert (result.exit_code, result.stdout) == (0, "forgot 1 job\n")
    result = jobs.run("forget", "mail-3")
    assert (result.exit_code, result.stdout) == (1, "forgot 0 jobs\n")
    assert json.loads(jobs.run("list", "--state", "cancelled", "--json").stdout) == []
    assert "say what to forget" in jobs.run("forget").stderr


def test_show_says_everything_and_steers_no_terminal(jobs: Depot) -> None:
    result = jobs.run("show", "load-1")
    assert result.exit_code == 0
    assert "\x1b" not in result.stdout
    lines = result.stdout.splitlines()
    for line in (
        "id         load-1",
        "state      waiting",
        "progress   40%",
        "arguments  {'text': '\\x1b[2J wiped'}",
    ):
        assert line in lines
    assert lines[-3:] == ["log", "  one", "  \\x1b two"]
    shown = json.loads(jobs.run("show", "load-1", "--json").stdout)
    assert (shown["log"], shown["progress"]["fraction"]) == (["one", "\x1b two"], 0.4)
    assert "key        ann, 1 at a time" in jobs.run("show", "mail-1").stdout.splitlines()
    assert "ValueError: no such user" in jobs.run("show", "load-2").stdout


def test_why_says_why(jobs: Depot) -> None:
    assert jobs.run("why", "mail-3").stdout.startswith("It is blocked: jobs of its key 'ann'")
    said = json.loads(jobs.run("why", "mail-1", "--json").stdout)
    assert said == {
        "id": "mail-1",
        "why": "It is waiting: no worker is running that reads queue 'mail'.",
    }


def test_why_says_times_in_the_local_zone(jobs: Depot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "XYZ-1")
    time.tzset()
    try:
        said = jobs.run("why", "mail-2").stdout
        document = jobs.run("why", "mail-2", "--json").stdout
    finally:
        monkeypatch.undo()
        time.tzset()
    assert " XYZ." in said
    assert " UTC" not in said
    assert " UTC." in document, "the same everywhere, for programs"


def test_log_prints_lines(jobs: Depot) -> None:
    assert jobs.run("log", "load-1").stdout == "one\n\\x1b two\n"
    assert json.loads(jobs.run("log", "load-1", "--json").stdout) == ["one", "\x1b two"]
    assert jobs.run("log", "mail-1").stdout == ""


@pytest.mark.parametrize("verb", ["show", "why", "log", "cancel"])
def test_an_unknown_id_is_one_line_and_code_1(jobs: Depot, verb: str) -> None:
    result = jobs.run(verb, "elsewhere")
    assert result.exit_code == 1
    (line,) = result.stderr.splitlines()
    assert line.startswith("headrace: job elsewhere is not in the store")


def test_cancel_by_id_does_not_ask(jobs: Depot) -> None:
    result = jobs.run("cancel", "mail-1", "mail-2")
    assert (result.exit_code, result.stdout) == (0, "cancelled 2 jobs\n")
    assert jobs.ids() == ["load-1", "mail-3"]


def test_cancel_says_what_it_could_not(jobs: Depot) -> None:
    result = jobs.run("cancel", "mail-1", "load-2", "elsewhere", "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout) == {
        "cancelled": 1,
        "running": 0,
        "ended": ["load-2"],
        "unknown": ["elsewhere"],
        "logged": [],
    }
    assert result.stderr.splitlines() == [
        "headrace: not in the store (any more): elsewhere",
        "headrace: ended already: load-2",
    ]


def test_cancel_by_filter_needs_a_yes(jobs: Depot) -> None:
    result = jobs.run("cancel", "-Q", "mail")
    assert result.exit_code == 2
    assert "--yes" in result.stderr
    assert jobs.run("cancel", "--until", "1h", "--yes").stdout == "cancelled 0 jobs\n"
    assert len(jobs.ids()) == 4
    assert jobs.run("cancel", "-Q", "mail", "--state", "blocked", "--yes").exit_code == 0
    assert jobs.ids() == ["load-1", "mail-1", "mail-2"]
    assert jobs.run("cancel", "--task", "send", "--yes").stdout == "cancelled 2 jobs\n"


def test_in_a_terminal_cancel_by_filter_asks(jobs: Depot, shop: Path) -> None:
    def run(answer: str) -> tuple[int, str, str]:
        command = ["jobs", "cancel", "-Q", "mail", "--task", "send"]
        done = run_headrace(shop, *command, answer=answer)
        return done.returncode, done.stdout, done.stderr

    code, _, asked = run("n")
    assert code == 1
    assert "Cancel all unfinished jobs of task send in queue mail? [y/N]" in asked
    assert len(jobs.ids("-Q", "mail")) == 3
    assert run("y")[:2] == (0, "cancelled 3 jobs\n")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["cancel"], "say what to cancel: ids"),
        (["cancel", "shop:app"], "say what to cancel in shop:app: ids"),
        (["cancel", "--app", "shop:app", "--yes"], "say what to cancel in shop:app: ids"),
        (["show", "shop:app"], "say which id in shop:app"),
        (["cancel", "mail-1", "--task", "send"], "not both"),
        (["cancel", "--state", "done", "--yes"], "done jobs have ended"),
        (["list", "--state", "flying"], "no state 'flying'"),
        (["list", "-Q", "a b"], "spaces"),
        (["list", "--since", "yesterday"], "is not 30m"),
        (["show", "a", "b"], "say one id, not 2"),
        (["watch", "--after", "5"], "name it with --queue"),
        (["watch", "-Q", "mail", "--after", "nonsense"], "is not a cursor"),
    ],
)
def test_what_is_not_clear_is_refused(jobs: Depot, arguments: list[str], text: str) -> None:
    result = jobs.run(*arguments)
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert text in line
    assert len(jobs.ids()) == 4


def test_an_id_that_looks_like_an_app_is_one_where_a_store_is_named(jobs: Depot) -> None:
    async def fill() -> None:
        async with Headrace(jobs.url) as app:

            @app.task(queue="mail")
            async def send() -> None: ...

            await send.options(id="mail:ann").enqueue()

    asyncio.run(fill())
    assert "say what to cancel in mail:ann" in jobs.run("cancel", "mail:ann").stderr
    assert "mail:ann" in jobs.ids()
    assert jobs.run("cancel", "mail:ann", "--url", jobs.url).stdout == "cancelled 1 job\n"


def test_an_app_may_be_named_first(jobs: Depot, start: Start) -> None:
    # The shop's namespace is another one, so it has no jobs.
    program = start("jobs", "list", "shop:app")
    assert (program.ended(), program.output) == (0, NO_JOBS)
    assert start("jobs", "show", "shop:app", "mail-1").ended() == 1
    assert start("jobs", "cancel", "shop:app", "-Q", "mail", "--yes").ended() == 0
    assert len(jobs.ids()) == 4


def test_watch_prints_events_as_they_happen_until_it_is_interrupted(
    jobs: Depot, start: Start
) -> None:
    program = start("jobs", "watch", "--after", "")
    program.says("  mail  scheduled  mail-2  send")
    program.says("  data  sent       load-1  load")
    jobs.run("cancel", "mail-2")
    program.says("  mail  cancelled  mail-2")
    program.send(signal.SIGINT)
    assert program.ended() == 0


def test_watch_says_when_a_job_is_tried_again_and_watches_groups_too(
    jobs: Depot, start: Start
) -> None:
    async def fail() -> None:
        async with Headrace(jobs.url) as app:
            orders = app.topic("orders", str)

            @orders.subscribe("billing", retry=Retry(2, base=60, jitter=False))
            async def bill(order: str) -> None:
                raise ValueError(order)

            async with app.worker():
                await orders.publish("o-1")
                while not (await app.store.count("billing@orders")).scheduled:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)

    program = start("jobs", "watch", "--after", "")
    asyncio.run(fail())
    program.says("next try in 1 min")
    (line,) = [each for each in program.output.splitlines() if "next try in " in each]
    assert "  billing@orders  retry " in line
    program.send(signal.SIGINT)
    assert program.ended() == 0


def test_watch_finds_queues_that_are_new(jobs: Depot, start: Start) -> None:
    program = start("jobs", "watch", "--json")

    async def send(queue: str) -> None:
        async with Headrace(jobs.url) as app:

            @app.task(queue=queue)
            async def work() -> None: ...

            await work.enqueue()

    def watches() -> bool:
        # Whatever is sent before it watches, it does not see.
        asyncio.run(send("mail"))
        return '"mail"' in program.output

    eventually("it watches", watches)
    asyncio.run(send("brand-new"))
    program.says("brand-new")
    program.send(signal.SIGINT)
    assert program.ended() == 0


def test_watch_goes_on_after_a_cursor(jobs: Depot, start: Start) -> None:
    program = start("jobs", "watch", "--queue", "mail", "--after", "", "--json")
    program.says('"kind": "blocked"')
    program.send(signal.SIGINT)
    assert program.ended() == 0
    events = [json.loads(line) for line in program.output.splitlines()]
    assert [(event["kind"], event["id"]) for event in events] == [
        ("sent", "mail-1"),
        ("scheduled", "mail-2"),
        ("blocked", "mail-3"),
    ]
    assert events[0].keys() == {
        "cursor", "time", "queue", "kind", "id", "task", "attempt", "duration", "detail",
    }  # fmt: skip
    again = start("jobs", "watch", "-Q", "mail", "--after", events[1]["cursor"], "--json")
    again.says('"blocked"')
    again.send(signal.SIGINT)
    assert again.ended() == 0
    assert [json.loads(line) for line in again.output.splitlines()] == events[2:]


def test_a_scheduled_job_runs_now(jobs: Depot) -> None:
    result = jobs.run("run-now", "mail-2")
    assert (result.exit_code, result.stdout) == (0, "1 job due now\n")
    assert "mail-2" in jobs.ids("--state", "waiting")
    result = jobs.run("run-now", "mail-1", "never-heard-of")
    assert (result.exit_code, result.stdout) == (1, "1 job due now\n")
    assert "not waiting or scheduled" in result.stderr


def test_a_job_is_moved(jobs: Depot) -> None:
    words = ("--delay", "2h", "--priority", "7", "--to", "data", "--json")
    result = jobs.run("move", "mail-2", *words)
    assert (result.exit_code, json.loads(result.stdout)) == (0, {"moved": 1})
    assert jobs.ids("--queue", "data", "--state", "scheduled") == ["mail-2"]
    result = jobs.run("move", "mail-2", "--at", "2020-01-01T00:00Z")
    assert result.exit_code == 0
    assert "mail-2" in jobs.ids("--queue", "data", "--state", "waiting")


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("move", "mail-2"), "say where to"),
        (("move",), "say which jobs"),
        (("move", "mail-2", "--at", "noon"), "not an ISO time"),
        (("move", "mail-2", "--delay", "noon"), "not a time such as 90s"),
        (("move", "mail-2", "--priority", "1000"), "from 0 to 100"),
        (("move", "mail-3", "--delay", "1h"), "is blocked"),
        (("run-now", "never-heard-of"), "not in the store"),
    ],
)
def test_a_move_that_cannot_be_says_why(jobs: Depot, words: tuple[str, ...], what: str) -> None:
    result = jobs.run(*words)
    assert result.exit_code != 0
    assert what in result.output


def test_jobs_are_listed_by_tag(jobs: Depot) -> None:
    async def send() -> None:
        async with Headrace(jobs.url) as app:

            @app.task(queue="mail")
            async def send(to: str) -> None: ...

            await send.options(id="mail-9", tags=["vip"]).enqueue("zoe")

    asyncio.run(send())
    assert jobs.ids("--tag", "vip") == ["mail-9"]
    assert "tags       vip" in jobs.run("show", "mail-9").stdout


def test_the_beginning_of_an_id_is_enough_if_it_fits_one_job(jobs: Depot) -> None:
    async def send(*ids: str) -> None:
        async with Headrace(jobs.url) as app:

            @app.task
            async def work() -> None: ...

            for id in ids:
                await work.options(id=id).enqueue()

    asyncio.run(send("01a1e52d-aaaa-1", "01a1e52e-bbbb-1", "01a1e52e-bbbb-2"))
    assert "id         01a1e52d-aaaa-1" in jobs.run("show", "01a1e52d").stdout
    assert jobs.run("why", "01a1e52d").exit_code == 0
    two = jobs.run("show", "01a1e52e")
    assert (two.exit_code, two.stderr) == (
        2, "headrace: 2 ids begin with 01a1e52e: give more of it\n",
    )  # fmt: skip
    assert jobs.run("show", "01a1e52").exit_code == 1


def test_show_has_what_is_left_of_a_result_that_cannot_travel(jobs: Depot) -> None:
    async def train() -> str:
        async with Headrace(jobs.url) as app:

            @app.task(queue="models")
            async def trained() -> object:
                return {"model": object}

            async with app.worker():
                job = await trained.enqueue()
                with pytest.raises(ResultLost):
                    await job.result(LONG)
            return job.id

    id = asyncio.run(train())
    assert "(lost) {'model': <class 'object'>}" in jobs.run("show", id).stdout
    shown = json.loads(jobs.run("show", id, "--json").stdout)
    assert (shown["lost_result"], shown["result_kept"]) == ("{'model': <class 'object'>}", False)
