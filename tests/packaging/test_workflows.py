"""What a code host runs is what developers run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_call_targets_that_exist(path: Path) -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    called = set(re.findall(r"^make ([a-z]+)", "\n".join(commands(path)), re.MULTILINE))
    assert called
    assert called <= targets


def commands(path: Path) -> list[str]:
    jobs: dict[str, Any] = yaml.safe_load(path.read_text())["jobs"]
    return [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]


def test_every_python_that_the_package_names_is_tested() -> None:
    named = re.findall(r"Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text())
    check = yaml.safe_load((ROOT / ".github/workflows/check.yml").read_text())
    assert check["jobs"]["test"]["strategy"]["matrix"]["python"] == named
