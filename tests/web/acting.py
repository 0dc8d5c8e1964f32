"""Forms that someone sends, and where they lead."""

from __future__ import annotations

import html
import json
import re
from typing import Any

import httpx2 as httpx

from tests.web.browsing import Person


async def post(person: Person, verb: str, *, sure: str = "yes", **fields: Any) -> httpx.Response:
    """A form, sent for sure unless said otherwise, and the page that it leads to."""
    sent = {
        "csrf_token": await person.token("/queue?name=default"),
        "back": "/actions",
        "sure": sure,
    }
    answer = await person.http.post(f"/actions/{verb}", data={**sent, **fields})
    return await person.http.get(answer.headers["location"]) if answer.is_redirect else answer


async def question(person: Person, verb: str, **fields: Any) -> str:
    """What is asked before that is done."""
    return html.unescape((await post(person, verb, sure="", **fields)).text)


def fields_for(page: str, verb: str) -> dict[str, str]:
    """What the form of a page sends for an action, besides what all forms do."""
    form = page[page.index(f'action="/actions/{verb}"') :].partition("</form>")[0]
    fields = dict(re.findall(r'name="(\w+)" value="([^"]*)"', html.unescape(form)))
    return {name: value for name, value in fields.items() if name not in ("csrf_token", "back")}


def listed(page: str) -> list[str]:
    """Ids of the jobs in a table of a page."""
    return [json.loads(html.unescape(each))[1] for each in re.findall(r'data-key="([^"]*)"', page)]
