"""Flask: views send jobs without an event loop. The worker is a process of its own in production:
`headrace worker flask_shop:jobs`."""

import asyncio
import os
import threading

from flask import Flask

from headrace import Headrace
from headrace.integrations.flask import current_jobs, init_app

jobs = Headrace(os.environ.get("HEADRACE_URL") or "memory://", namespace="example-flask")
web = Flask(__name__)
init_app(web, jobs)


@jobs.task
def total(prices: list[int]) -> int:
    return sum(prices)


@web.post("/orders/<int:price>/<int:shipping>")
def order(price: int, shipping: int) -> str:
    return total.enqueue_sync([price, shipping]).id


@web.get("/orders/<id>")
def look(id: str) -> str:
    return str(current_jobs().job(id).result_sync(timeout=10))


async def work(until: threading.Event) -> None:
    async with jobs, jobs.worker():
        await asyncio.to_thread(until.wait)


if __name__ == "__main__":
    ended = threading.Event()
    worker = threading.Thread(target=asyncio.run, args=(work(ended),))
    worker.start()
    client = web.test_client()
    id = client.post("/orders/300/120").text
    print(client.get(f"/orders/{id}").text)
    ended.set()
    worker.join()

# Prints:
# 420
