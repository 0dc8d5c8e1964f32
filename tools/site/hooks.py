"""What `make docs` does beyond MkDocs: see `repository`, `navigation`, `reference` and `commands`.

The pages in docs/ are written for a reader of the repository, whose links lead to files. Here they
become pages of the site: the same links work in both.
"""

from __future__ import annotations

import sys
from pathlib import Path

import commands
import markdown_of
import navigation
import outside
import reference
import repository
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """The navigation is what docs/index.md lists, then what is made here."""
    sys.path.insert(0, str(ROOT / "src"))
    config.nav = navigation.read(
        ROOT / "docs" / "index.md",
        repository.PAGES,
        {
            "Reference": reference.navigation() + commands.navigation(),
        },
    )
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not in docs/."""
    if (contents := files.get_file_from_path("index.md")) is not None:
        files.remove(contents)
    for uri, text in {
        **repository.pages(),
        **reference.pages(),
        **commands.pages(),
    }.items():
        files.append(File.generated(config, uri, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    return markdown_of.site(repository.linked(markdown, page.file.src_uri))


def on_post_build(config: MkDocsConfig) -> None:
    if found := outside.loaded(Path(config.site_dir)):
        raise PluginError("the site loads from other hosts:\n" + "\n".join(found))
