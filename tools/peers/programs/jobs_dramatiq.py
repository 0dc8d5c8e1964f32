"""Dramatiq. It keeps no results unless it is given a backend for them."""

import sys

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.middleware import AsyncIO
from runs import URL, note_run, report_sends

broker = RedisBroker(url=URL)
broker.add_middleware(AsyncIO())
dramatiq.set_broker(broker)


@dramatiq.actor
def plain() -> None:
    note_run()


@dramatiq.actor
async def coroutine() -> None:
    note_run()


if __name__ == "__main__":
    actor = plain if sys.argv[1] == "plain" else coroutine
    report_sends(actor.send, int(sys.argv[2]))
