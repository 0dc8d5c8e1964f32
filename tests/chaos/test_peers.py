"""`headrace bench --peers`, with what pip installs."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from redis import Redis

from headrace.benchmark.figures import QUICK
from headrace.benchmark.peers.comparison import PEERS, compare
from headrace.benchmark.peers.environments import python_with
from headrace.cli import main


@pytest.mark.slow
def test_other_queues_drain_the_same_functions_and_leave_nothing(
    redis_url: str, tmp_path: Path
) -> None:
    sizes = msgspec.structs.replace(QUICK, peers=100)
    figures = compare(redis_url, sizes, lambda _: None, tmp_path)
    for peer, figure in zip(PEERS, figures, strict=True):
        assert figure.name.startswith(f"plain functions, to {peer.name} ")
        assert figure.name[-1].isdigit(), "its version"
        assert figure.value > 0
        assert figure.raw is not None
        assert figure.raw > 0
    with Redis.from_url(redis_url) as redis:
        assert list(redis.scan_iter("*headrace-bench-*")) == []


@pytest.mark.slow
def test_an_environment_is_made_once_unless_it_was_left_half_made(tmp_path: Path) -> None:
    # A small package, for pip wants one.
    python = python_with(tmp_path, "small", ["iniconfig"])
    mine = python.with_name("mine")
    mine.touch()
    assert python_with(tmp_path, "small", ["iniconfig"]) == python
    assert mine.exists()
    (python.parent.parent / ".ready").unlink()
    assert python_with(tmp_path, "small", ["iniconfig"]) == python
    assert not mine.exists()


@pytest.mark.slow
def test_what_pip_cannot_install_is_said_in_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, value in (("NO_INDEX", "1"), ("FIND_LINKS", ""), ("CONFIG_FILE", os.devnull)):
        monkeypatch.setenv(f"PIP_{name}", value)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    result = CliRunner().invoke(main, ["bench", "--peers", "--quick"])
    assert result.exit_code == 2
    assert result.stderr.startswith(
        "headrace: dramatiq could not be installed, which --peers needs"
    )
    assert "pip must reach a package index" in result.stderr
    assert result.stderr.count("\n") == 1
