"""Creates the groups of a topic before something is published that they must not miss."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from headrace.client.sender import insist
from headrace.client.session import ClientSession
from headrace.client.subscription import Subscription
from headrace.errors import EventNotFound


async def create_groups(
    session: ClientSession, topic: str, subscriptions: Mapping[str, Subscription[..., Any]]
) -> None:
    """See that all these groups of a topic exist. Asks the store every few seconds, or when more
    are declared; publishers that need it at the same time wait for one request."""
    while not session.has_joined(topic, len(subscriptions)):
        joining = session.joining.get(topic)
        if joining is None:
            groups = list(subscriptions.values())
            joining = asyncio.create_task(_join_all(session, topic, groups))
            session.joining[topic] = joining
            joining.add_done_callback(partial(_forget, session, topic))
        await asyncio.shield(joining)


async def _join_all(
    session: ClientSession, topic: str, subscriptions: Sequence[Subscription[..., Any]]
) -> None:
    for subscription in subscriptions:
        if subscription.declared.queue in session.removed:
            continue
        # If a group cannot begin where it should, its worker reports it.
        with suppress(EventNotFound):
            await insist(partial(subscription.join, session.store))
    session.note_joined(topic, len(subscriptions))


def _forget(session: ClientSession, topic: str, joining: asyncio.Task[None]) -> None:
    del session.joining[topic]
    if not joining.cancelled():
        # Raised in the publishers that wait; there may be none left.
        joining.exception()
