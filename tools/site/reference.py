"""The pages of the reference: a directive for each public name, which mkdocstrings fills in."""

from __future__ import annotations

from public import CONSTRUCTED, INSIDE, MAKES, ONE_SIGNATURE, PAGES, PLACES, ReferencePage

FOLDER = "reference"


def navigation() -> list[dict[str, str]]:
    """The pages in their order."""
    return [{page.title: f"{FOLDER}/{name}.md"} for name, page in PAGES.items()]


def pages() -> dict[str, str]:
    """The text of each page, by its place in the site."""
    return {f"{FOLDER}/{name}.md": _text(page) for name, page in PAGES.items()}


def _text(page: ReferencePage) -> str:
    return "\n\n".join([f"# {page.title}", page.about, *map(_directive, page.names)]) + "\n"


def _directive(name: str) -> str:
    hidden = ("_.*", MAKES, *INSIDE.get(name, "").split())
    options = {
        "filters": "[" + ", ".join(f'"!^{each}$"' for each in hidden) + "]",
        "merge_init_into_class": str(name in CONSTRUCTED).lower(),
        "show_overloads": str(name not in ONE_SIGNATURE).lower(),
    }
    lines = [f"      {option}: {value}" for option, value in options.items()]
    return "\n".join([f"::: {PLACES.get(name, name)}", "    options:", *lines])
