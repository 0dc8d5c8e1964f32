"""How middlewares are nested; the first is outermost."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import takewhile

from headrace.client.context import CurrentRun
from headrace.client.job import Send, SendMany
from headrace.client.send.outgoing import Outgoing
from headrace.client.topic.publication import Publish
from headrace.core.job.delivery import LeasedDelivery
from headrace.middleware.views import JobRun, Received
from headrace.middleware.wrapping import Middleware, Proceed, overrides

log = logging.getLogger("headrace.worker")

OnRead = Callable[[Sequence[LeasedDelivery], int], None]
"""Called with what a read brought, and when it began, in nanoseconds since 1970."""


def wrap(outgoing: Outgoing, middleware: Sequence[Middleware]) -> None:
    """Have an app send and publish through these from now on."""
    outgoing.publishing = publishing(middleware)
    senders = wrapping_send(middleware)
    if not senders:
        return
    together, alone = split(senders)
    outgoing.sending = partial(sending_through, senders)
    outgoing.send = sending_through(senders, outgoing.send_one)
    each = partial(outgoing.send_each, sending_through(alone, outgoing.send_one))
    inner = each if alone else outgoing.send_together
    outgoing.send_batch = sending_many_through(together, inner)
    outgoing.flow_sending = partial(sending_many_through, together)
    outgoing.flow_call_sending = partial(sending_through, alone) if alone else None


def wrapping_send(middleware: Sequence[Middleware]) -> list[Middleware]:
    """Those that wrap sending."""
    return [one for one in middleware if overrides(one, "send", "send_many")]


def wrapping_run(middleware: Sequence[Middleware]) -> list[Middleware]:
    """Those that wrap running."""
    return [one for one in middleware if overrides(one, "run", "wants")]


def sending_through(middleware: Sequence[Middleware], send: Send) -> Send:
    """`send` inside of these."""
    for one in reversed(middleware):
        send = _sending_through(one, send)
    return send


def _sending_through(one: Middleware, send: Send) -> Send:
    return lambda call: one.send(call, send)


def split(middleware: Sequence[Middleware]) -> tuple[list[Middleware], list[Middleware]]:
    """Those that get calls together, and those that get them one by one: the first without
    `send_many`, and all inside of it."""
    together = list(takewhile(lambda one: overrides(one, "send_many"), middleware))
    return together, list(middleware[len(together) :])


def sending_many_through(middleware: Sequence[Middleware], send: SendMany) -> SendMany:
    """`send` inside of these, which all get calls together."""
    for one in reversed(middleware):
        send = _sending_many_through(one, send)
    return send


def _sending_many_through(one: Middleware, send: SendMany) -> SendMany:
    return lambda calls: one.send_many(calls, send)


def publishing(middleware: Sequence[Middleware]) -> Callable[[Publish], Publish] | None:
    """Wraps a publish in those that override `publish`; None if there are none."""
    publishers = [one for one in middleware if overrides(one, "publish")]
    return partial(_publishing_through, publishers) if publishers else None


def _publishing_through(middleware: Sequence[Middleware], publish: Publish) -> Publish:
    for one in reversed(middleware):
        publish = _published_through(one, publish)
    return publish


def _published_through(one: Middleware, publish: Publish) -> Publish:
    return lambda publication: one.publish(publication, publish)


def running_through(middleware: Sequence[Middleware], run: JobRun, proceed: Proceed) -> Proceed:
    """`proceed` inside of these."""
    for one in reversed(middleware):
        proceed = partial(one.run, run, proceed)
    return proceed


def receiving(middleware: Sequence[Middleware]) -> OnRead | None:
    """Calls `received` of those that override it; None if there are none."""
    listeners = [one for one in middleware if overrides(one, "received")]
    return partial(_received, listeners) if listeners else None


def _received(
    middleware: Sequence[Middleware], deliveries: Sequence[LeasedDelivery], began: int
) -> None:
    received = Received(deliveries, began)
    for one in middleware:
        try:
            one.received(received)
        except Exception:
            log.exception(
                "%s.received failed", type(one).__name__, extra={"middleware": type(one).__name__}
            )


def entered(middleware: Sequence[Middleware], run: CurrentRun) -> ExitStack:
    """The contexts around a function in a process, to be left when it has ended."""
    with ExitStack() as stack:
        for one in middleware:
            if overrides(one, "within"):
                stack.enter_context(one.within(run.context()))
        return stack.pop_all()
