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
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    called = set(re.findall(r"^make ([a-z-]+)", "\n".join(commands(path)), re.MULTILINE))
    assert called
    assert called <= targets


def commands(path: Path) -> list[str]:
    jobs: dict[str, Any] = yaml.safe_load(path.read_text())["jobs"]
    return [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]


def test_every_python_that_the_package_names_is_tested() -> None:
    named = re.findall(r"Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text())
    check = yaml.safe_load((ROOT / ".github/workflows/check.yml").read_text())
    assert check["jobs"]["test"]["strategy"]["matrix"]["python"] == named


def test_the_site_that_is_published_is_the_one_that_is_checked() -> None:
    """`make check` builds it too, with the same target, so that a broken link is found before."""
    workflow = yaml.safe_load((ROOT / ".github/workflows/docs.yml").read_text())
    steps = workflow["jobs"]["build"]["steps"]
    assert [step["run"] for step in steps if "run" in step] == ["make docs"]
    uploaded = [step["with"]["path"] for step in steps if "upload-pages" in step.get("uses", "")]
    site = yaml.load((ROOT / "mkdocs.yml").read_text(), Loader=yaml.BaseLoader)["site_dir"]
    assert uploaded == [site]
    (needed,) = re.findall(r"^check: ([^#]*)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    # It takes longest, and is seldom what is wrong.
    assert needed.split()[-1] == "docs"


def test_what_is_left_out_of_a_test_run_is_run_every_night() -> None:
    nightly = ROOT / ".github/workflows/nightly.yml"
    assert set(commands(nightly)) == {"make chaos", "make conformance"}
    assert "schedule" in yaml.load(nightly.read_text(), Loader=yaml.BaseLoader)["on"]
