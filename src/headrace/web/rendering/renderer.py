"""From pages to HTML."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from headrace.web.flash import Notice
from headrace.web.page import Page, Visit
from headrace.web.rendering.formatting import FILTERS, visible
from headrace.web.routes import NAVIGATION

TEMPLATES = Path(__file__).parents[1] / "templates"


@cache
def _templates() -> Environment:
    """Compiled once for all dashboards of a process."""
    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=visible,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(FILTERS)
    made.globals["navigation"] = NAVIGATION
    # As globals: what is imported at the head of a template is not known in a block of it that is
    # rendered by itself.
    parts = made.get_template("parts.html").module
    macros = {name: macro for name, macro in vars(parts).items() if not name.startswith("_")}
    made.globals.update(macros)
    return made


class Rendering:
    """The templates. All that they are given is escaped."""

    def __init__(self) -> None:
        self._templates = _templates()

    def whole(self, visit: Visit, page: Page, notice: Notice | None = None) -> str:
        """The document."""
        return self._rendered(visit, page, bare=False, notice=notice)

    def live(self, visit: Visit, page: Page) -> str:
        """The main content alone."""
        return self._rendered(visit, page, bare=True, notice=None)

    def _rendered(self, visit: Visit, page: Page, **more: Any) -> str:
        known = {"refresh": None, **page.context, "visit": visit, "page": page, **more}
        return self._templates.get_template(page.template).render(known)
