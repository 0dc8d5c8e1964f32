"""What a code host runs is what developers run."""

from __future__ import annotations

import re
import tomllib
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
    assert set(commands(nightly)) == {"make chaos", "make conformance", "make audit"}
    assert "schedule" in yaml.load(nightly.read_text(), Loader=yaml.BaseLoader)["on"]


def test_each_change_is_tried_on_the_lowest_versions_and_holes_are_looked_for() -> None:
    path = ROOT / ".github/workflows/check.yml"
    assert {"make lowest", "make audit"} <= set(commands(path))
    review = yaml.safe_load(path.read_text())["jobs"]["dependencies"]
    assert review["if"] == "github.event_name == 'pull_request'"
    assert any("/dependency-review-action@" in step["uses"] for step in review["steps"])
    (chaos,) = re.findall(r"^chaos:.*\n(?:\t.*\n)+", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert "$(MAKE) lowest" in chaos


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_what_others_wrote_is_pinned_by_its_commit_and_its_version_is_named(path: Path) -> None:
    used = re.findall(r"uses: (.*)", path.read_text())
    pinned = r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+"
    assert [each for each in used if not re.fullmatch(pinned, each)] == []


def test_an_action_has_one_version_in_all_workflows() -> None:
    used = {each for path in WORKFLOWS for each in re.findall(r"uses: (.*)", path.read_text())}
    assert len(used) == len({each.partition("@")[0] for each in used})


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_job_may_read_the_code_and_what_it_publishes_needs_no_password(path: Path) -> None:
    workflow = yaml.safe_load(path.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    for name, job in workflow["jobs"].items():
        more = {"id-token": "write"} | ({"pages": "write"} if path.stem == "docs" else {})
        assert job.get("permissions") == (more if name == "publish" else None)
        # A job that may write runs nothing that this repository, or a package of it, brings.
        assert name != "publish" or not [step for step in job["steps"] if "run" in step]
        # The token with which the code was fetched is not left for what runs after that.
        for step in job["steps"]:
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"] == {"persist-credentials": False}
    assert "secrets." not in path.read_text()
    assert "pull_request_target" not in path.read_text()


def test_a_release_is_built_apart_from_all_packages_but_those_of_a_lock_with_hashes() -> None:
    jobs = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())["jobs"]
    steps = [step["run"] for step in jobs["build"]["steps"] if "run" in step]
    assert [step.split()[0] for step in steps] == ["make", "test"]
    assert steps[0] == "make dist"
    assert set(jobs["publish"]["needs"]) == {"check", "build"}

    makefile = (ROOT / "Makefile").read_text()
    assert re.findall(r"^dist: (.*?) *##", makefile, re.MULTILINE) == ["$(BUILD)/.locked"]
    locked = makefile.partition("\n$(BUILD)/.locked: tools/build.lock\n")[2].partition("\n\n")[0]
    assert re.findall(r"tools/setup (\w+) ", locked) == ["build"]
    setup = (ROOT / "tools/setup").read_text()
    assert "    build) install_locked " in setup
    installing = setup.partition("install_locked() {")[2].partition("\n}")[0]
    assert "--require-hashes" in installing
    assert re.findall(r"--requirement (\S+)", installing) == ["tools/build.lock"]


def test_the_lock_has_what_builds_and_a_hash_of_each_package() -> None:
    lock = (ROOT / "tools/build.lock").read_text().replace("\\\n", "")
    entries = [line for line in lock.splitlines() if line.strip() and line.lstrip()[0] != "#"]
    pinned = r"([\w.-]+)==\S+( ; [^-]+)?( +--hash=sha256:[0-9a-f]{64})+"
    found = [re.fullmatch(pinned, entry) for entry in entries]
    assert None not in found, entries
    names = {each[1] for each in found if each}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert {*project["build-system"]["requires"], "build"} <= names
