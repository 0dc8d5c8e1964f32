"""`headrace queues`."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from headrace import Headrace
from headrace.cli import main
from tests.admin.burying import bury, envelope


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A store with two waiting mails and a dead one."""
    url = f"sqlite:///{tmp_path}/jobs.db"
    asyncio.run(_filled(Headrace(url, namespace="n")))
    return url


async def _filled(app: Headrace) -> None:
    @app.task(queue="mail")
    async def send() -> None: ...

    async with app:
        await bury(app, [envelope()], queue="mail")
        await app.enqueue_many([send.call(), send.call()])


def test_a_table_for_people(url: str) -> None:
    result = CliRunner().invoke(main, ["queues", "--url", url, "--namespace", "n"])
    assert result.exit_code == 0
    heading, mail = result.output.splitlines()
    assert heading == "QUEUE  WAITING  OLDEST  RUNNING  SCHEDULED  BLOCKED  DEAD  PAUSED"
    assert _row(mail) == ["mail", "2", "0", "0", "0", "1"]
    same = CliRunner().invoke(main, ["queues", "list", "--url", url, "--namespace", "n"])
    assert _row(same.output.splitlines()[1]) == _row(mail)


def _row(line: str) -> list[str]:
    """The cells of a queue, without the age of its oldest job."""
    name, waiting, _, unit, *others = line.split()
    assert unit in {"ms", "s"}
    return [name, waiting, *others]


def test_json_for_programs(url: str) -> None:
    env = {"HEADRACE_URL": url, "HEADRACE_NAMESPACE": "n"}
    result = CliRunner(env=env).invoke(main, ["queues", "--json"])
    assert result.exit_code == 0
    (mail,) = json.loads(result.stdout)
    assert datetime.fromisoformat(mail.pop("oldest")).tzinfo is not None
    # In seconds.
    assert 0 <= mail.pop("age") < 600
    assert datetime.fromisoformat(mail.pop("last_died")).tzinfo is not None
    assert [mail] == [
        {
            "name": "mail",
            "waiting": 2,
            "running": 0,
            "scheduled": 0,
            "dead": 1,
            "blocked": 0,
            "paused": False,
            "paused_tasks": [],
            "concurrency": None,
        }
    ]


def test_a_store_of_another_process_is_not_shown_as_empty() -> None:
    result = CliRunner().invoke(main, ["queues", "--url", "memory://"])
    assert "warning: a memory:// store is of one process" in result.stderr
    assert result.exit_code == 0


def test_an_empty_store(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/empty.db"
    (tmp_path / "empty.db").touch()
    assert CliRunner().invoke(main, ["queues", "--url", url]).output.startswith("no queues")
    result = CliRunner().invoke(main, ["queues", "--url", url, "--json"])
    assert json.loads(result.stdout) == []


def test_a_misspelt_file_is_not_made(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["queues", "--url", f"sqlite:///{tmp_path}/typo.db"])
    assert result.exit_code == 2
    assert "there is no" in result.output
    assert not (tmp_path / "typo.db").exists()


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("redis://127.0.0.1:1/0", "Redis cannot be reached"),
        ("sqlite:////nowhere/at/all/jobs.db", "/nowhere/at/all"),
        ("pigeon://loft", "unknown store URL"),
    ],
)
def test_a_store_that_cannot_be_used_is_one_line_and_code_2(url: str, text: str) -> None:
    result = CliRunner().invoke(main, ["queues", "--url", url])
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert line.startswith("headrace: ")
    assert text in line


def test_the_same_on_redis(redis_url: str, namespace: str) -> None:
    asyncio.run(_filled(Headrace(redis_url, namespace=namespace)))
    result = CliRunner().invoke(main, ["queues", "--url", redis_url, "--namespace", namespace])
    (mail,) = [line for line in result.output.splitlines() if line.startswith("mail")]
    assert _row(mail) == ["mail", "2", "0", "0", "0", "1"]


def test_a_queue_is_paused_and_resumed(url: str) -> None:
    def run(*arguments: str) -> str:
        env = {"HEADRACE_URL": url, "HEADRACE_NAMESPACE": "n"}
        result = CliRunner(env=env).invoke(main, ["queues", *arguments])
        assert result.exit_code == 0, result.stderr
        return result.stdout

    assert run("pause", "mail") == "paused queue mail\n"
    assert run().splitlines()[1].endswith("1  all")
    assert run("resume", "mail") == "resumed queue mail\n"
    assert run("pause", "mail", "--task", "send") == "paused task send in queue mail\n"
    assert run().splitlines()[1].endswith("1  send")
    run("pause", "mail")
    assert run().splitlines()[1].endswith("1  all, send")
    run("resume", "mail")
    said = json.loads(run("resume", "mail", "--task", "send", "--json"))
    assert said == {"resumed": {"queue": "mail", "task": "send"}}
    assert json.loads(run("--json"))[0]["paused_tasks"] == []


@pytest.mark.parametrize("words", [["pause"], ["resume"], ["pause", "--task", "send"], ["remove"]])
def test_a_mistyped_queue_is_refused(url: str, words: list[str]) -> None:
    env = {"HEADRACE_URL": url, "HEADRACE_NAMESPACE": "n"}
    result = CliRunner(env=env).invoke(main, ["queues", *words, "mial"])
    assert (result.exit_code, result.stdout) == (1, "")
    assert "there is no queue 'mial'" in result.stderr
    assert ("did you mean 'mail'?" in result.stderr) == (words != ["remove"])
    assert ("'mail'? --force pauses it" in result.stderr) == (words[0] == "pause")
    assert "mial" not in CliRunner(env=env).invoke(main, ["queues"]).stdout


def test_a_queue_can_be_paused_before_anything_is_sent_to_it(url: str) -> None:
    env = {"HEADRACE_URL": url, "HEADRACE_NAMESPACE": "n"}
    for verb in ("pause", "resume", "pause"):
        option = ["--force"] if verb == "pause" else []
        assert CliRunner(env=env).invoke(main, ["queues", verb, "mial", *option]).exit_code == 0
    listed = CliRunner(env=env).invoke(main, ["queues"]).stdout.splitlines()
    assert [line.split()[0] for line in listed] == ["QUEUE", "mail", "mial"]
    assert listed[2].endswith("0  all")


@pytest.mark.parametrize("verb", ["pause", "resume"])
def test_an_app_without_a_queue_is_no_queue(url: str, verb: str) -> None:
    env = {"HEADRACE_URL": url, "HEADRACE_NAMESPACE": "n"}
    result = CliRunner(env=env).invoke(main, ["queues", verb, "shop:app"])
    assert result.exit_code == 2
    assert "say which queue in shop:app" in result.stderr
    listed = CliRunner(env=env).invoke(main, ["queues"]).stdout
    assert "shop:app" not in listed


def test_a_queue_that_looks_like_an_app_is_one_where_a_store_is_named(url: str) -> None:
    store = ["--url", url, "--namespace", "n"]
    result = CliRunner().invoke(main, ["queues", "pause", "mail:urgent", "--force", *store])
    assert (result.exit_code, result.stdout) == (0, "paused queue mail:urgent\n")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["pause"], "Missing argument"),
        (["pause", "a", "b"], "say one queue, not 2"),
        (["pause", "a b"], "spaces"),
        (["resume", "mail", "--task", "a b"], "spaces"),
    ],
)
def test_what_cannot_be_paused_is_refused(url: str, arguments: list[str], text: str) -> None:
    result = CliRunner(env={"HEADRACE_URL": url}).invoke(main, ["queues", *arguments])
    assert result.exit_code == 2
    assert text in result.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["jobs", "list", "--task", "sned"],
        ["jobs", "cancel", "--task", "sned", "--yes"],
        ["dead", "list", "--task", "sned"],
        ["dead", "groups", "--task", "sned"],
        ["dead", "purge", "--task", "sned", "--yes"],
    ],
)
def test_a_task_that_nobody_knows_is_a_warning(url: str, words: list[str]) -> None:
    options = ["--url", url, "--namespace", "n"]
    result = CliRunner().invoke(main, [*words, *options])
    assert result.exit_code == 0
    assert result.stderr == "headrace: warning: no task 'sned' is known: did you mean 'send'?\n"

    async def bury_another() -> None:
        async with Headrace(url, namespace="n") as app:
            await bury(app, [envelope("work")], queue="data")

    # Dead without ever having been sent, so that it was not counted.
    asyncio.run(bury_another())
    for task in ("send", "work", "@orders", "orders/billing"):
        named = [word.replace("sned", task) for word in words]
        assert CliRunner().invoke(main, [*named, *options]).stderr == ""


@pytest.mark.parametrize(
    "words",
    [
        ["jobs", "list", "--queue", "mial"],
        ["jobs", "cancel", "--queue", "mial", "--yes"],
        ["dead", "list", "--queue", "mial"],
        ["dead", "replay", "--queue", "mial", "--yes"],
    ],
)
def test_a_queue_that_nobody_knows_is_a_warning(url: str, words: list[str]) -> None:
    options = ["--url", url, "--namespace", "n"]
    result = CliRunner().invoke(main, [*words, *options])
    assert result.exit_code == 0
    warning = "headrace: warning: no queue 'mial' is known: did you mean 'mail'?\n"
    assert warning in result.stderr
    known = CliRunner().invoke(main, [*(w.replace("mial", "mail") for w in words), *options])
    assert "warning" not in known.stderr
