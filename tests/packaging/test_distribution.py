"""What is uploaded: a wheel and a source archive, complete and usable on their own."""

from __future__ import annotations

import re
import zipfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path

import headrace
from headrace.core.version import VERSION

ROOT = Path(__file__).parents[2]
PACKAGE = Path(headrace.__file__).parent


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
    page = (ROOT / "README.md").read_text()
    shown = re.findall(r"(!?)\[[^]]*\]\(([^)\s]+)\)", page)
    paths = [(picture, path) for picture, path in shown if not path.startswith("https://")]
    assert len(paths) > 12
    for picture, path in paths:
        assert (ROOT / path.partition("#")[0]).is_file(), path
        address = f"{urls['Repository']}/{'raw' if picture else 'blob'}/v{VERSION}/{path}"
        page = page.replace(f"]({path})", f"]({address})")
    # Nothing else differs from what the repository shows.
    assert description == page
    targets = re.findall(r"\]\(([^)\s]+)\)", description)
    assert [target for target in targets if not target.startswith("https://")] == []
