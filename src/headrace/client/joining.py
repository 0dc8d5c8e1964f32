"""Groups join before something is published that they must not miss."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from headrace.client.sender import insist
from headrace.client.session import Session
from headrace.errors import EventNotFound

if TYPE_CHECKING:
    from headrace.client.topic import Topic


async def join_all(session: Session, topic: Topic[Any]) -> None:
    """Have all groups of a topic join that the app declares. Those who want it at the same time
    wait for the same, and go on together."""
    joining = session.joining.get(topic.name)
    if joining is None:
        joining = session.joining[topic.name] = asyncio.create_task(_join_all(session, topic))
        joining.add_done_callback(partial(_forget, session, topic.name))
    await asyncio.shield(joining)


async def _join_all(session: Session, topic: Topic[Any]) -> None:
    subscriptions = list(topic.subscriptions.values())
    for subscription in subscriptions:
        if subscription.declared.queue in session.removed:
            continue
        # That a group cannot begin where it should is told to its worker.
        with suppress(EventNotFound):
            await insist(partial(subscription.join, session.store))
    session.note_joined(topic.name, len(subscriptions))


def _forget(session: Session, topic: str, joining: asyncio.Task[None]) -> None:
    del session.joining[topic]
    if not joining.cancelled():
        # Told to those who wait; there may be none left.
        joining.exception()
