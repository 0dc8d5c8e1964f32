"""Whether everything on a page has room."""

from __future__ import annotations

from typing import Literal

from tests.browser.visitor import Visitor

WIDTHS = {390: 844, 1440: 900}
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")

# Boxes that scroll by themselves hold what they like; what is 1 px wide is for screen readers.
_STICKS_OUT = """() => {
  const wide = document.documentElement.clientWidth;
  const scrolls = (node) => ["auto", "scroll"].includes(getComputedStyle(node).overflowX);
  const held = (node) => {
    for (let up = node.parentElement; up; up = up.parentElement) if (scrolls(up)) return true;
    return false;
  };
  const name = (node) => node.tagName.toLowerCase() + "." + node.getAttribute("class");
  const found = [];
  if (document.documentElement.scrollWidth > window.innerWidth) found.push("the page scrolls");
  for (const node of document.body.querySelectorAll("*")) {
    const box = node.getBoundingClientRect();
    if (box.width <= 1 || box.height <= 1 || node.closest("svg, option, datalist")) continue;
    if ((box.right > wide + 1 || box.left < -1) && !held(node)) {
      found.push(name(node) + " from " + box.left + " to " + box.right);
    }
    const full = node.clientWidth > 1 && node.scrollWidth > node.clientWidth + 1;
    if (full && getComputedStyle(node).overflowX === "visible" && !held(node)) {
      found.push(name(node) + " is too full");
    }
  }
  return found;
}"""


async def sticking_out(visitor: Visitor) -> list[str]:
    """What has no room on the page that is shown, at each width and in each theme."""
    found = []
    for width, height in WIDTHS.items():
        await visitor.page.set_viewport_size({"width": width, "height": height})
        for theme in THEMES:
            await visitor.page.emulate_media(color_scheme=theme)
            seen = await visitor.page.evaluate(_STICKS_OUT)
            found += [f"{width} px, {theme}: {each}" for each in seen]
    return found
