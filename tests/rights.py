"""The users of Redis that the documents advise, as the documents write them."""

from __future__ import annotations

import re
from pathlib import Path

_PAGE = Path(__file__).parents[1] / "docs" / "stores.md"
_USERS = re.compile(r"^```text\n(ACL SETUSER shop reset on >password.*?)```", re.M | re.S)

CLUSTER = "+cluster|slots"
"""What a user needs besides in a cluster; the page says so."""


def user_of_servers(namespaces: str = "headrace", *more: str, name: str = "shop") -> list[str]:
    """The command that makes the user of the servers, for namespaces that may have a `*`."""
    words = _users()[0].replace("{headrace", f"{{{namespaces}").split()
    return [*words[:2], name, *words[3:], *more]


def user_of_sentinels() -> list[str]:
    """The command that makes the user of the sentinels."""
    return _users()[1].split()


def _users() -> list[str]:
    page = _PAGE.read_text()
    users = _USERS.findall(page)
    assert len(users) == 2, "the page shows a user of servers and one of sentinels"
    assert page.count(CLUSTER) == 1, "the page says what a cluster needs besides"
    return [str(user) for user in users]
