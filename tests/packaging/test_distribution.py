"""What is uploaded: a wheel and a source archive, complete and usable on their own."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path

import pytest

import headrace
from headrace.core.version import VERSION

ROOT = Path(__file__).parents[2]
PACKAGE = Path(headrace.__file__).parent


def built(source: Path, into: Path, *kinds: str) -> None:
    command = [sys.executable, "-m", "build", "--no-isolation", *kinds, "--outdir", str(into)]
    done = subprocess.run([*command, str(source)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel that was made from the source archive, as installers do that get only that."""
    folder = tmp_path_factory.mktemp("dist")
    built(ROOT, folder, "--sdist")
    (archive,) = folder.glob("*.tar.gz")
    subprocess.run(["tar", "--extract", "--file", archive, "--directory", folder], check=True)
    (source,) = (each for each in folder.iterdir() if each.is_dir())
    built(source, folder, "--wheel")
    (wheel,) = folder.glob("*.whl")
    return wheel


def metadata_of(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as opened:
        (name,) = (each for each in opened.namelist() if each.endswith("dist-info/METADATA"))
        return message_from_bytes(opened.read(name))


def test_the_wheel_has_every_file_of_the_package(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as opened:
        packed = {each for each in opened.namelist() if each.startswith("headrace/")}
    there = {
        str(Path("headrace", each.relative_to(PACKAGE)))
        for each in PACKAGE.rglob("*")
        if each.is_file() and "__pycache__" not in each.parts
    }
    assert packed == there


def test_pytest_finds_the_plugin_in_the_wheel(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as opened:
        (name,) = (each for each in opened.namelist() if each.endswith("/entry_points.txt"))
        assert "[pytest11]\npytest_headrace = pytest_headrace\n" in opened.read(name).decode()
        assert "pytest_headrace/__init__.py" in opened.namelist()


def test_the_wheel_says_what_it_is_and_what_it_needs(wheel: Path) -> None:
    said = metadata_of(wheel)
    assert (said["Name"], said["Version"], said["License-Expression"]) == (
        "headrace",
        VERSION,
        "MIT",
    )
    assert said["Description-Content-Type"] == "text/markdown"
    needed = [
        each.partition(">")[0].partition("[")[0]
        for each in said.get_all("Requires-Dist") or ()
        if "extra ==" not in each
    ]
    assert sorted(needed) == ["click", "cronsim", "msgspec"]


def test_the_description_leads_to_files_of_this_version_by_their_addresses(wheel: Path) -> None:
    said = metadata_of(wheel)
    urls = dict(each.split(", ") for each in said.get_all("Project-URL") or ())
    description = bytes(said.get_payload(decode=True)).decode()
    links = re.findall(r"(!?)\[[^]]*\]\(([^)\s]+)\)", description)
    assert len(links) > 20
    assert [link for _, link in links if not link.startswith("https://")] == []
    for picture, link in links:
        kind = "raw" if picture else "blob"
        path = link.removeprefix(f"{urls['Repository']}/{kind}/v{VERSION}/").partition("#")[0]
        assert path != link, link
        assert (ROOT / path).is_file(), link
    # Nothing else differs from what the repository shows.
    assert re.sub(r"https://[^)]+/v[\d.]+/", "", description) == (ROOT / "README.md").read_text()


def test_jobs_run_with_the_installed_wheel_alone(wheel: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--no-deps", "--target", str(site), str(wheel)], check=True)
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, str(program), str(site)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["5", str(site / "headrace" / "__init__.py")]


# The wheel comes before the editable install, whose finder would be asked first otherwise.
PROGRAM = """\
import sys

sys.path.insert(0, sys.argv[1])
sys.meta_path = [each for each in sys.meta_path if "editable" not in repr(each).lower()]

import asyncio

import headrace

app = headrace.Headrace("memory://")


@app.task
async def add(a: int, b: int) -> int:
    return a + b


async def main() -> None:
    async with app, app.worker():
        print(await (await add.enqueue(2, 3)).result(60))
    print(headrace.__file__)


asyncio.run(main())
"""
