"""Keys: spelled in one place, and no other touched by a script than those it was given."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import NamedTuple

import pytest

from headrace.store.redis import script
from headrace.store.redis.keys import KvKeys, QueueKeys
from tests.house.lua import FOLDER, LUA, MOVING, PRELUDE, code


def suffixes() -> set[str]:
    """What the keys and channels of a queue, and of a space of notes, end in."""
    queue, space = QueueKeys("n", "q"), KvKeys("n", "s")
    spelled = [getattr(queue, name) for name in QueueKeys.ALL]
    pairs = [getattr(space, name) for name in KvKeys.__slots__]
    return (
        {text.rsplit("}", 1)[1].strip(":") for text in spelled}
        | {text.strip(":").rsplit(":", 1)[1] for text in pairs}
        | {"queues", "notes"}
    )


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
    found = re.findall(r"'([^'\n]*)'|\"([^\"\n]*)\"", code(path.stem))
    return [one or other for one, other in found]


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.name)
def test_no_key_is_spelled_in_python_outside_of_keys(path: Path) -> None:
    spelled = [text for text in python_texts(path) if looks_like_a_key(text)]
    assert bool(spelled) is (path.name == "keys.py"), spelled


@pytest.mark.parametrize("path", LUA, ids=lambda path: path.name)
def test_no_key_is_spelled_in_lua(path: Path) -> None:
    assert not [text for text in lua_texts(path) if looks_like_a_key(text)]


# Commands that are about no key.
KEYLESS = {"INFO", "TIME"}
# Where the key is not the first argument.
BEHIND_THE_VERB = {"XGROUP", "XINFO"}


def targets(text: str) -> list[str]:
    """The first key of each command in Lua code, as it is written there."""
    found = []
    for command, rest in re.findall(r"redis\.p?call\('([A-Z]+)'(?:, )?(.*)", text):
        if command in KEYLESS:
            continue
        if command == "XREADGROUP":
            rest = rest.split("'STREAMS', ")[1]
        elif command in BEHIND_THE_VERB:
            rest = rest.split(", ", 1)[1]
        found.append(re.match(r"[\w.]*(?:\(\w*\))?", rest)[0])  # type: ignore[index]
    return found


class Block(NamedTuple):
    """A function of a Lua file, or, without a name, what is outside of all."""

    file: str
    name: str
    parameters: list[str]
    body: str


def blocks(file: str) -> list[Block]:
    # In a block of `do`, too, where a function is often set that was declared before it.
    pattern = re.compile(
        r"^( *)(?:local function (\w+)|(\w+) = function)\((.*?)\)$(.*?)^\1end$",
        re.MULTILINE | re.DOTALL,
    )
    text = code(file)
    found = [
        Block(file, local or declared, names.split(", "), body)
        for _, local, declared, names, body in pattern.findall(text)
    ]
    return [*found, Block(file, "", [], pattern.sub("", text))]


def origins(variable: str, block: Block) -> list[tuple[str, Block]]:
    """What a variable is set to in a function, what is given for it as a parameter, or else what it
    is in the whole file; each with where that is said."""
    found: list[tuple[str, Block]] = []
    for names, values in re.findall(r"^\s*(?:local )?([\w, ]+) = (.+)$", block.body, re.MULTILINE):
        if variable in (listed := names.split(", ")):
            parts = values.split(", ")
            same = len(parts) == len(listed)
            found.append((parts[listed.index(variable)] if same else values, block))
    for name, values in re.findall(r"for _, (\w+) in ipairs\((.+)\) do", block.body):
        if variable == name:
            found.append((values, block))
    if variable in block.parameters:
        found += given_for(block, block.parameters.index(variable))
    if not found and block.name:
        return origins(variable, blocks(block.file)[-1])
    return found


def given_for(function: Block, position: int) -> list[tuple[str, Block]]:
    """What callers give as the argument at a position, wherever they are."""
    shared = function.file in (PRELUDE, *script.MOVING)
    files = [path.stem for path in LUA] if shared else [function.file]
    found: list[tuple[str, Block]] = []
    for block in (block for file in files for block in blocks(file)):
        # Under its own name, or another that it is given there.
        alias = re.findall(rf"local (\w+) = [^(\n]*\b{function.name}\b[^(\n]*$", block.body, re.M)
        names = "|".join([function.name, *alias])
        calls = re.findall(rf"\b(?:{names})\(((?:[^()]|\([^()]*\))*)\)", block.body)
        found += [(re.split(r", (?![^({]*[)}])", given)[position], block) for given in calls]
    return found


def makes_keys(function: str, file: str) -> bool:
    """Whether a function hands out keys, not only what it found under them."""
    bodies = [
        each.body
        for name in (file, MOVING, PRELUDE)
        for each in blocks(name)
        if each.name == function
    ]
    lines = [line for body in bodies for line in body.splitlines() if "redis." not in line]
    return any(re.search(r"\bkey\.\w+", line) for line in lines)


def is_a_key(expression: str, block: Block, seen: frozenset[tuple[str, str]] = frozenset()) -> bool:
    """Whether it is one of the keys given to the script, or made from one by adding to it."""
    if "redis." in expression:
        return False
    if re.search(r"\bkey\.\w+", expression):
        return True
    expression = re.sub(r"^unpack\((\w+)\)$", r"\1", expression)
    expression = re.sub(r"^(\w+) \.\. .*$", r"\1", expression)
    if called := re.fullmatch(r"(\w+)\(.*\)", expression):
        return makes_keys(called[1], block.file)
    if not re.fullmatch(r"\w+", expression) or (expression, block.name) in seen:
        return False
    found = origins(expression, block)
    seen |= {(expression, block.name)}
    return bool(found) and all(is_a_key(each, where, seen) for each, where in found)


@pytest.mark.parametrize("path", LUA, ids=lambda path: path.name)
def test_a_script_touches_only_keys_that_it_was_given(path: Path) -> None:
    unknown = {
        (block.name, target)
        for block in blocks(path.stem)
        for target in targets(block.body)
        if not is_a_key(target, block)
    }
    # Its callers give it a table of keys; of a removed queue, what the server lists.
    listed = {("is_needed", "name"), ("", "ARGV")} if path.stem == "forget" else set()
    assert unknown <= {("wrong_type", "name")} | listed


def test_keys_of_one_queue_are_all_different_and_share_a_slot() -> None:
    queue, member = QueueKeys("shop", "mail"), QueueKeys("shop", "billing@orders")
    assert len(set(member.all)) == len(member.all)
    assert all(text.startswith("{shop:@orders}") for text in member.all)
    assert all(text.startswith("{shop:mail}:") for text in queue.all)
    # A queue that belongs to no topic is, where its log is asked for, its own.
    assert len(set(queue.all)) == len(queue.all) - len({"log", "log_jobs"})


def test_keys_that_others_are_made_from_end_in_a_colon() -> None:
    """So that a key made by adding to one is no other's."""
    spelled = QueueKeys("shop", "mail").all
    for text in spelled:
        if not text.endswith(":"):
            assert not [
                prefix for prefix in spelled if prefix[-1] == ":" and text[: len(prefix)] == prefix
            ]


def test_two_queues_never_share_a_key() -> None:
    """A namespace and a queue may both contain a colon."""
    assert QueueKeys("shop", "eu:mail").ready != QueueKeys("shop:eu", "mail").ready


def test_key_value_pairs_share_no_key_with_a_queue() -> None:
    """Whatever the queue and the space are called."""
    pairs = KvKeys("shop", "seen")
    assert all(getattr(pairs, name).startswith("{shop}:kv:seen:") for name in pairs.__slots__)
