"""Whether everything on a page has room."""

from __future__ import annotations

from typing import Literal

from tests.browser.visitor import Visitor

WIDTHS = {390: 844, 768: 1024, 1024: 768, 1440: 900}
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")

# Texts and drawings scroll by themselves, tables must not; what is 1 px wide is for screen readers.
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
    const inside = node.scrollWidth > node.clientWidth + 1;
    if (inside && scrolls(node) && !node.matches("pre, textarea, .log, .flow")) {
      found.push(name(node) + " scrolls sideways");
    }
    const full = node.clientWidth > 1 && node.scrollWidth > node.clientWidth + 1;
    if (full && getComputedStyle(node).overflowX === "visible" && !held(node)) {
      found.push(name(node) + " is too full");
    }
  }
  return found;
}"""
# Ids and long values may be broken, not into bits of a few letters.
_FEWEST_LETTERS = 9
_BREAKS = """(fewest) => {
  const found = new Set();
  const range = document.createRange();
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let text = texts.nextNode(); text; text = texts.nextNode()) {
    const box = text.parentElement.getBoundingClientRect();
    if (box.width <= 1 || text.parentElement.closest("svg, pre, option, datalist")) continue;
    for (const word of text.data.matchAll(/[^-\\s]+/g)) {
      range.setStart(text, word.index);
      range.setEnd(text, word.index + word[0].length);
      const lines = new Set([...range.getClientRects()].map((each) => Math.round(each.top))).size;
      if (lines > 1 && word[0].length / lines < fewest) found.add("broken: " + word[0]);
    }
  }
  return [...found];
}"""


async def sticking_out(visitor: Visitor, *, words: bool = False) -> list[str]:
    """What has no room on the page that is shown, at each width and in each theme; with `words`,
    also words that are broken into bits."""
    found = []
    for width, height in WIDTHS.items():
        await visitor.page.set_viewport_size({"width": width, "height": height})
        for theme in THEMES:
            await visitor.page.emulate_media(color_scheme=theme)
            seen = await visitor.page.evaluate(_STICKS_OUT)
            found += [f"{width} px, {theme}: {each}" for each in seen]
        broken = await visitor.page.evaluate(_BREAKS, _FEWEST_LETTERS) if words else []
        found += [f"{width} px: {each}" for each in broken]
    return found
