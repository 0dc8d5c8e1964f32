"""Sends from greenlets. Started as `greenlet_shop.py gevent|eventlet URL NAMESPACE`, or served by
gunicorn as `greenlet_shop:web` with both in the environment."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from typing import Any

if __name__ == "__main__" and sys.argv[1] == "gevent":
    from gevent import monkey

    monkey.patch_all()
elif __name__ == "__main__":
    import warnings

    with warnings.catch_warnings(action="ignore"):
        import eventlet

    eventlet.monkey_patch()

import threading

from headrace import ConfigError, Headrace, ResultTimeout

URL, NAMESPACE = sys.argv[2:4] if __name__ == "__main__" else (os.environ["SHOP_URL"], "shop")
app, other = Headrace(URL, namespace=NAMESPACE), Headrace(URL, namespace=NAMESPACE)


@app.task
def sell(number: int) -> None: ...


@other.task
def pay(number: int) -> None: ...


def web(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Each request sends a job of each app."""
    sell.enqueue_sync(1)
    pay.enqueue_sync(1)
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [str(os.getpid()).encode()]


async def blocks() -> str:
    """What is still refused: a call on the portal's loop itself would wait for itself."""
    try:
        sell.enqueue_sync(1)
    except ConfigError as error:
        return str(error)
    return "sent"


def main() -> None:
    def send(number: int) -> None:
        sell.enqueue_sync(number)
        pay.enqueue_sync(number)

    senders = [threading.Thread(target=send, args=(number,)) for number in range(5)]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    job = sell.enqueue_sync(5)
    try:
        job.result_sync(timeout=0)
    except ResultTimeout:
        refused = "inside a running event loop" in app.portal.run(blocks())
        sys.stdout.write(f"{job.status_sync()} {refused}\n")


if __name__ == "__main__":
    main()
