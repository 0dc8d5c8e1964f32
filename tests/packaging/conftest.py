"""What a stranger has: the files of the repository, and the wheel that is made of them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.once import once

ROOT = Path(__file__).parents[2]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The files at hand as a clone has them: nothing that git ignores, such as caches."""
    return make_clone(tmp_path / "clone")


def make_clone(folder: Path) -> Path:
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.check_output(listed, cwd=ROOT, text=True).split("\0")
    for name in filter(None, names):
        # A file that was deleted, but not in a commit yet, is listed too.
        if (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel that was made from the source archive, as installers do that get only that."""
    (wheel,) = once(tmp_path_factory, "wheel", make_wheel).glob("*.whl")
    return wheel


def make_wheel(folder: Path) -> None:
    clone = make_clone(folder / "clone")
    # The archive first, then the wheel from what it holds: what `build` does if asked for neither.
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(clone)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    shutil.rmtree(clone)
