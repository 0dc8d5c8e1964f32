"""The examples run as a reader would run them, and print what they say at their end."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import forked
from tests.rights import user_of_servers
from tests.servers import RedisServer

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
# Far beyond what any takes on a slow machine.
LONG = 120.0
MARK = "# Prints:\n"


def said(example: Path) -> str:
    """What the file says that it prints, below its mark."""
    _, mark, lines = example.read_text().partition(MARK)
    assert mark, f"{example.name} does not say what it prints"
    return "".join(f"{line.removeprefix('# ')}\n" for line in lines.splitlines())


def printed(example: Path, url: str | None, folder: Path) -> str:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("HEADRACE_")}
    if url is not None:
        environment["HEADRACE_URL"] = url
    ended = forked.run("-W", "error", str(example), cwd=folder, env=environment, timeout=LONG)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.stem)
def test_an_example_needs_no_server_and_prints_what_it_says(example: Path, tmp_path: Path) -> None:
    assert printed(example, None, tmp_path) == said(example)
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def users_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Redis on which the user that the documents show may use the namespaces of the examples."""
    with RedisServer(tmp_path_factory.mktemp("redis")) as server:
        server.ask(*user_of_servers("example-*"))
        yield f"redis://shop:password@127.0.0.1:{server.port}/0"


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.stem)
def test_an_example_prints_the_same_on_redis_with_no_more_rights_than_said(
    example: Path, users_url: str, tmp_path: Path
) -> None:
    assert printed(example, users_url, tmp_path) == said(example)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.stem)
def test_an_example_belongs_to_a_page(example: Path) -> None:
    pages = (page.read_text() for page in (ROOT / "docs").glob("*.md"))
    assert any(f"(../examples/{example.name})" in page for page in pages)
