"""The Lua scripts: each says what it does, and Python calls it by the same names."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from headrace.store.redis import keys, script_stubs
from headrace.store.redis.keys import KvKeys, QueueKeys
from headrace.store.redis.script import Script
from tests.house.lua import (
    ALL,
    LUA,
    MOVING,
    NAMES,
    OF_EACH,
    PRELUDE,
    code,
    header,
    moves_jobs,
    source,
)

# ARGV that no caller gives: what `keys.py` says once for all, and what the queue says itself.
CONSTANTS = {
    name.lower(): value
    for name, value in vars(keys).items()
    if name.isupper() and isinstance(value, str)
}
FILLED_IN = {*CONSTANTS, "queue", "group", "groups"}


def stub(name: str) -> Any:
    """The function or the script of this name."""
    return getattr(script_stubs, name)


def key_names(name: str) -> list[str]:
    named = header(name)[1].removeprefix("KEYS: ").removesuffix(OF_EACH).split()
    return list(QueueKeys.ALL) if named == [ALL] else named


def keys_for(name: str) -> list[QueueKeys] | list[KvKeys]:
    """Examples of what the script is called with: one, or two if it takes many queues."""
    annotation = inspect.signature(stub(name)).parameters["keys"].annotation
    assert (annotation == "Sequence[QueueKeys]") is header(name)[1].endswith(OF_EACH)
    if annotation == "KvKeys":
        return [KvKeys("shop", "seen")]
    queues = [QueueKeys("shop", "mail"), QueueKeys("shop", "billing@orders")]
    return queues[:1] if annotation == "QueueKeys" else queues


def fixed_arguments(name: str) -> list[str]:
    """The ARGV that are there in every call, by name."""
    fixed = header(name)[2].removeprefix("ARGV: ").partition("*")[0].removesuffix(", then ")
    return [] if fixed == "none" else [word.partition(":")[0] for word in fixed.split()]


def takes_several(name: str) -> bool:
    """Whether any number of jobs follows the fixed ARGV."""
    return "*" in header(name)[2]


def shared_parts(name: str) -> list[str]:
    """The functions of the prelude that a script calls, itself or through another of them: their
    keys are then its own."""
    functions = re.split(r"^(?=local function )", code(PRELUDE), flags=re.MULTILINE)[1:]
    named = {re.match(r"local function (\w+)", text)[1]: text for text in functions}  # type: ignore[index]
    parts, calling = [], code(name)
    # A function calls only those before it.
    for part, text in reversed(named.items()):
        if re.search(rf"\b{part}\(", calling):
            parts.append(text)
            calling += text
    return parts


def stub_parameters(name: str) -> list[str]:
    """What the caller of a script gives, beyond the link and the keys."""
    parameters = list(inspect.signature(stub(name)).parameters.values())
    assert [parameter.name for parameter in parameters[:2]] == ["link", "keys"]
    assert all(parameter.kind is parameter.KEYWORD_ONLY for parameter in parameters[2:])
    names = [parameter.name for parameter in parameters[2:]]
    return [name for name in names if name != "idempotency"]


@pytest.mark.parametrize("name", NAMES)
def test_a_script_opens_with_what_it_does_its_keys_its_arguments_and_its_answer(name: str) -> None:
    what, key_names, arguments, returns, *rest = header(name)
    assert not rest, "the header is four lines; more goes below it"
    assert what.endswith(".")
    assert "atomic" in what, "say why it must be one step"
    assert key_names.startswith("KEYS: ")
    assert arguments.startswith("ARGV: ")
    assert re.match(r"Returns [^:]+: .+\.$", returns)


def test_all_keys_of_a_queue_are_handed_to_scripts_that_move_jobs() -> None:
    assert set(QueueKeys.ALL) == set(QueueKeys.__slots__) - {
        "all",
        "group",
        "history_rules",
        "patterns",
        "queue",
    }
    queue = QueueKeys("shop", "mail")
    assert queue.all == [getattr(queue, name) for name in QueueKeys.ALL]


@pytest.mark.parametrize("name", NAMES)
def test_every_key_of_a_script_is_a_key_of_the_queue(name: str) -> None:
    names, owner = key_names(name), keys_for(name)[0]
    assert names
    assert len(set(names)) == len(names)
    assert set(names) <= set(owner.__slots__) - {"all", "group", "queue"}


@pytest.mark.parametrize("name", NAMES)
def test_a_script_uses_every_key_that_it_names_and_no_other(name: str) -> None:
    parts = [code(name), *shared_parts(name), *([code(MOVING)] if moves_jobs(name) else [])]
    used = {key for part in parts for key in re.findall(r"\bkey\.(\w+)", part)}
    if moves_jobs(name):
        # Which of them it needs depends on the jobs.
        assert used <= set(key_names(name))
        assert used & set(re.findall(r"\bkey\.(\w+)", code(MOVING)))
    else:
        assert used == set(key_names(name))


def test_every_key_is_used_by_some_script() -> None:
    files = [code(path.stem) for path in LUA]
    used = {key for text in files for key in re.findall(r"\bkey\.(\w+)", text)}
    assert used == {*QueueKeys.ALL, *KvKeys.__slots__}


@pytest.mark.parametrize("path", LUA, ids=lambda path: path.name)
def test_keys_go_by_name(path: Path) -> None:
    """Nobody counts them, and nothing else is called `key`."""
    text = code(path.stem)
    assert not re.search(r"\bKEYS\b", text)
    assert not re.search(r"(?:local|for|function)\b[^=\n]*[\s(,]key\b[,)\s]", text)


@pytest.mark.parametrize("name", NAMES)
def test_a_script_reads_every_argument_that_it_names_and_no_other(name: str) -> None:
    parts = [code(name), *([code(MOVING)] if moves_jobs(name) else [])]
    used = {int(number) for part in parts for number in re.findall(r"ARGV\[(\d+)\]", part)}
    assert used == set(range(1, len(fixed_arguments(name)) + 1))


@pytest.mark.parametrize("name", [name for name in NAMES if moves_jobs(name)])
def test_scripts_that_move_jobs_begin_with_the_arguments_that_they_share(name: str) -> None:
    assert fixed_arguments(name)[:2] == ["events", "queue"]


@pytest.mark.parametrize("name", NAMES)
def test_a_script_is_called_with_the_arguments_that_it_names(name: str) -> None:
    asked = [argument for argument in fixed_arguments(name) if argument not in FILLED_IN]
    given = stub_parameters(name)
    if takes_several(name):
        # What there is any number of comes last, under a name of its own.
        assert given.pop() not in asked
    assert given == asked


class Sent(Exception):
    """Raised instead of sending."""


class Catch:
    """A link that only looks at what it is given."""

    async def run(
        self, script: Script, names: list[str], arguments: list[Any], idempotency: None = None
    ) -> None:
        raise Sent(script, names, arguments)


@pytest.mark.parametrize("name", NAMES)
async def test_arguments_are_sent_in_the_order_of_the_header(name: str) -> None:
    owners, function = keys_for(name), stub(name)
    values: dict[str, Any] = {parameter: f"<{parameter}>" for parameter in stub_parameters(name)}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.annotation == "bool":
            values[parameter.name] = True
    if takes_several(name):
        values[stub_parameters(name)[-1]] = []
    with pytest.raises(Sent) as caught:
        await function(Catch(), owners if len(owners) > 1 else owners[0], **values)
    script, names, arguments = caught.value.args
    assert script is stub(f"_{name}")
    assert names == [getattr(owner, key) for owner in owners for key in key_names(name)]
    queues, groups = ([getattr(owner, it, "") for owner in owners] for it in ("queue", "group"))
    own = {"queue": queues[0], "group": groups[0], "groups": msgspec.msgpack.encode(groups)}
    expected = own | CONSTANTS | values
    moving = [owner for owner in owners if isinstance(owner, QueueKeys) and moves_jobs(name)]
    rules = [owner.history_rules.encoded(owner.queue) for owner in moving]
    assert arguments == [*(expected[argument] for argument in fixed_arguments(name)), *rules]


def test_every_script_has_a_stub_and_every_stub_a_script() -> None:
    made, stubs = set(), set()
    for name, value in vars(script_stubs).items():
        if isinstance(value, Script):
            made.add(name.removeprefix("_"))
        elif inspect.isfunction(value) and value.__module__ == script_stubs.__name__:
            stubs.add(name)
    assert made == stubs == set(NAMES)


def test_the_stubs_are_those_that_the_headers_give() -> None:
    """If not: python tools/lua_stubs.py."""
    command = [sys.executable, "tools/lua_stubs.py", "--check"]
    done = subprocess.run(
        command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_scripts_share_comes_before_them() -> None:
    for part in (PRELUDE, MOVING):
        assert source(part).startswith("-- ")
    assert "ARGV" not in code(PRELUDE)
    for name in NAMES:
        script: Script = stub(f"_{name}")
        assert script.body.startswith("#!lua")
        assert (source(MOVING) in script.body) is moves_jobs(name)


@pytest.mark.parametrize("name", NAMES)
def test_a_script_has_what_it_needs_of_the_prelude_and_no_more(name: str) -> None:
    body = stub(f"_{name}").body
    for function in re.findall(r"^local function (\w+)", source(PRELUDE), re.MULTILINE):
        defined = body.find(f"local function {function}(")
        used = [found.start() for found in re.finditer(rf"(?<!function )\b{function}\(", body)]
        assert (defined >= 0) is bool(used)
        assert all(place > defined for place in used)
