"""The Lua scripts: each says what it does, and Python calls it by the same names."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from headrace.store.redis import keys, scripts
from headrace.store.redis.keys import QueueKeys
from headrace.store.redis.scripts import Script

FOLDER = Path(inspect.getfile(scripts)).parent
# Not a script by itself: it is put at the head of each.
PRELUDE = "prelude"
LUA = sorted((FOLDER / "lua").glob("*.lua"))
NAMES = [path.stem for path in LUA if path.stem != PRELUDE]

# ARGV that no caller gives: names of keys, and what `keys.py` says once for all.
CONSTANTS = {
    name.lower(): value
    for name, value in vars(keys).items()
    if name.isupper() and isinstance(value, str)
}


def header(name: str) -> list[str]:
    """The comment lines at the top, without the line that names the interpreter."""
    lines = (FOLDER / "lua" / f"{name}.lua").read_text().splitlines()
    assert lines[0].startswith("#!lua")
    end = next(i for i, line in enumerate(lines[1:], 1) if not line.startswith("--"))
    return [line.removeprefix("--").strip() for line in lines[1:end]]


def key_names(name: str) -> list[str]:
    return header(name)[1].removeprefix("KEYS: ").split()


def fixed_arguments(name: str) -> list[str]:
    """The ARGV that are there in every call, by name."""
    fixed = header(name)[2].removeprefix("ARGV: ").split(", then ")[0]
    return [] if fixed.startswith("the ") else fixed.split()


def takes_several(name: str) -> bool:
    """Whether any number of jobs follows the fixed ARGV."""
    line = header(name)[2].removeprefix("ARGV: ")
    return ", then " in line or line.startswith("the ")


def filled_in() -> set[str]:
    """What of the queue's names travels as ARGV: prefixes and channels, which are no keys."""
    return set(QueueKeys.__slots__) - {key for name in NAMES for key in key_names(name)} - {"queue"}


def stub_parameters(name: str) -> list[str]:
    """What the caller of a script gives, beyond the link and the keys."""
    parameters = list(inspect.signature(getattr(scripts, name)).parameters.values())
    assert [parameter.name for parameter in parameters[:2]] == ["link", "keys"]
    assert all(parameter.kind is parameter.KEYWORD_ONLY for parameter in parameters[2:])
    return [parameter.name for parameter in parameters[2:]]


@pytest.mark.parametrize("name", NAMES)
def test_a_script_opens_with_what_it_does_its_keys_its_arguments_and_its_answer(name: str) -> None:
    what, key_names, arguments, returns, *rest = header(name)
    assert not rest, "the header is four lines; more goes below it"
    assert what.endswith(".")
    assert "atomic" in what, "say why it must be one step"
    assert key_names.startswith("KEYS: ")
    assert arguments.startswith("ARGV: ")
    assert re.match(r"Returns .+\.$", returns)


@pytest.mark.parametrize("name", NAMES)
def test_every_key_of_a_script_is_a_key_of_the_queue(name: str) -> None:
    names = key_names(name)
    assert names
    assert len(set(names)) == len(names)
    assert set(names) <= set(QueueKeys.__slots__) - {"queue", "result"}
    assert not [key for key in names if key.endswith("_channel")]


@pytest.mark.parametrize("name", NAMES)
def test_a_script_uses_every_key_that_it_names_and_no_other(name: str) -> None:
    body = (FOLDER / "lua" / f"{name}.lua").read_text()
    used = {int(number) for number in re.findall(r"KEYS\[(\d+)\]", body)}
    assert used == set(range(1, len(key_names(name)) + 1))


@pytest.mark.parametrize("name", NAMES)
def test_a_script_reads_every_argument_that_it_names_and_no_other(name: str) -> None:
    body = (FOLDER / "lua" / f"{name}.lua").read_text()
    used = {int(number) for number in re.findall(r"ARGV\[(\d+)\]", body)}
    assert used == set(range(1, len(fixed_arguments(name)) + 1))


@pytest.mark.parametrize("name", NAMES)
def test_a_script_is_called_with_the_arguments_that_it_names(name: str) -> None:
    known = filled_in() | set(CONSTANTS)
    asked = [argument for argument in fixed_arguments(name) if argument not in known]
    given = stub_parameters(name)
    if takes_several(name):
        # What there is any number of comes last, under a name of its own.
        assert given.pop() not in asked
    assert given == asked


class Sent(Exception):
    """Raised instead of sending."""


class Catch:
    """A link that only looks at what it is given."""

    async def run(self, script: Script, names: list[str], arguments: list[Any]) -> None:
        raise Sent(script, names, arguments)


@pytest.mark.parametrize("name", NAMES)
async def test_arguments_are_sent_in_the_order_of_the_header(name: str) -> None:
    queue, stub = QueueKeys("shop", "mail"), getattr(scripts, name)
    values: dict[str, Any] = {parameter: f"<{parameter}>" for parameter in stub_parameters(name)}
    for parameter in inspect.signature(stub).parameters.values():
        if parameter.annotation == "bool":
            values[parameter.name] = True
    if takes_several(name):
        values[stub_parameters(name)[-1]] = []
    with pytest.raises(Sent) as caught:
        await stub(Catch(), queue, **values)
    script, names, arguments = caught.value.args
    assert script is getattr(scripts, f"_{name}")
    assert names == [getattr(queue, key) for key in key_names(name)]
    expected = {key: getattr(queue, key) for key in filled_in()} | CONSTANTS | values
    assert arguments == [expected[argument] for argument in fixed_arguments(name)]


def test_every_script_has_a_stub_and_every_stub_a_script() -> None:
    made = {
        name.removeprefix("_") for name, value in vars(scripts).items() if isinstance(value, Script)
    }
    stubs = {
        name
        for name, value in vars(scripts).items()
        if inspect.iscoroutinefunction(value) and value.__module__ == scripts.__name__
    }
    assert made == stubs == set(NAMES)


# Keys are spelled in one place


def suffixes() -> set[str]:
    """What the keys and channels of a queue end in."""
    example = QueueKeys("n", "q")
    spelled = [getattr(example, name) for name in QueueKeys.__slots__ if name != "queue"]
    return {text.rsplit("}", 1)[1].strip(":") for text in spelled} | {"queues"}


def looks_like_a_key(text: str) -> bool:
    """A suffix behind a colon, a hash tag, or the beginning of one."""
    spelled = any(re.search(rf":{re.escape(suffix)}\b", text) for suffix in suffixes())
    return spelled or bool(re.search(r"\{\w+(:\w+)?\}:", text)) or text.endswith("}:")


def python_texts(path: Path) -> list[str]:
    tree = ast.parse(path.read_text())
    with_docs = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docs = {ast.get_docstring(n, False) for n in ast.walk(tree) if isinstance(n, with_docs)}
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value not in docs
    ]


def lua_texts(path: Path) -> list[str]:
    code = "\n".join(line.split("--", 1)[0] for line in path.read_text().splitlines())
    return [one or other for one, other in re.findall(r"'([^'\n]*)'|\"([^\"\n]*)\"", code)]


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.name)
def test_no_key_is_spelled_in_python_outside_of_keys(path: Path) -> None:
    spelled = [text for text in python_texts(path) if looks_like_a_key(text)]
    assert bool(spelled) is (path.name == "keys.py"), spelled


@pytest.mark.parametrize("path", LUA, ids=lambda path: path.name)
def test_no_key_is_spelled_in_lua(path: Path) -> None:
    assert not [text for text in lua_texts(path) if looks_like_a_key(text)]


@pytest.mark.parametrize("name", NAMES)
def test_a_script_touches_only_keys_that_it_was_given(name: str) -> None:
    """The first argument of each command on a key: KEYS[n], or the result prefix and a job key."""
    code = (FOLDER / "lua" / f"{name}.lua").read_text()
    call = re.compile(r"redis\.p?call\('([A-Z]+)'(?:, '[A-Z]+')?(?:, ([^,)]+))?")
    for command, target in call.findall(code):
        if command not in ("TIME", "PUBLISH"):
            assert re.match(r"KEYS\[|result \.\. |ARGV\[\d\] \.\. key|stream$", target), command


def test_what_scripts_share_takes_its_keys_from_them() -> None:
    prelude = (FOLDER / "lua" / f"{PRELUDE}.lua").read_text()
    assert prelude.startswith("-- ")
    assert not re.search(r"KEYS|ARGV", prelude)
    for name in NAMES:
        script: Script = getattr(scripts, f"_{name}")
        assert script.body.startswith("#!lua")
        assert prelude in script.body


def test_keys_of_one_queue_are_all_different_and_share_a_slot() -> None:
    queue = QueueKeys("shop", "mail")
    spelled = [getattr(queue, name) for name in QueueKeys.__slots__ if name != "queue"]
    assert len(set(spelled)) == len(spelled)
    assert all(text.startswith("{shop:mail}:") for text in spelled)


def test_two_queues_never_share_a_key() -> None:
    """A namespace and a queue may both contain a colon."""
    assert QueueKeys("shop", "eu:mail").ready != QueueKeys("shop:eu", "mail").ready
