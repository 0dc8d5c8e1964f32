"""README.md as a package index shows it: links and pictures are addresses, not paths.

A build hook of hatchling. The file itself keeps relative links, which code hosts, editors and the
site follow in the version at hand. An index has the text alone, so there each leads to the
repository, at the tag of the version that is built.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

# A link or a picture: `[text](path)`, `![text](path)`; not an address, nor a place on the page.
LINK = re.compile(r"(?P<text>(?P<picture>!?)\[[^]]*\]\()(?P<path>(?![a-z]+:|#)[^)\s]+)\)")


class PackageReadme(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        """Set the text that is shown of the package."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        shown = with_addresses(text, metadata["urls"]["Repository"], f"v{metadata['version']}")
        metadata["readme"] = {"content-type": "text/markdown", "text": shown}


def with_addresses(text: str, repository: str, tag: str) -> str:
    """The text with an address for each path of the repository."""

    def address(match: re.Match[str]) -> str:
        kind = "raw" if match["picture"] else "blob"
        return f"{match['text']}{repository}/{kind}/{tag}/{match['path']})"

    return LINK.sub(address, text)
