"""Environments of their own for other queues, below a cache folder: they are made once."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from headrace.errors import ConfigError

_READY = ".ready"


def cache_folder() -> Path:
    """Where this user's programs keep what they can make again."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "headrace" / "peers"


def python_with(folder: Path, name: str, packages: Sequence[str]) -> Path:
    """The Python of an environment that has these packages; made below `folder` if need be. Raises
    `ConfigError` if pip cannot install them."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    home = folder / f"{name}-{version}"
    python = home / "bin" / "python"
    if (home / _READY).exists():
        return python
    # One that was left half made is of no use.
    shutil.rmtree(home, ignore_errors=True)
    # Without a pip of its own, which takes longer to install than what is wanted.
    _run(name, sys.executable, "-m", "venv", "--without-pip", str(home))
    pip = (sys.executable, "-m", "pip", "--python", str(python))
    _run(name, *pip, "install", "--quiet", *packages)
    (home / _READY).touch()
    return python


def version_of(python: Path, package: str) -> str:
    code = f"from importlib.metadata import version; print(version({package!r}))"
    return _run(package, str(python), "-c", code).strip()


def _run(name: str, *command: str) -> str:
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        said = [line for line in ended.stderr.splitlines() if line.strip()] or ["no reason given"]
        raise ConfigError(
            f"{name} could not be installed, which --peers needs ({said[-1].strip()}): pip must "
            "reach a package index"
        )
    return ended.stdout
