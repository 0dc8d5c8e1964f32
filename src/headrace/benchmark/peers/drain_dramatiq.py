"""Drain functions that do nothing with dramatiq. Run by the Python of its own environment: nothing
of Headrace is imported here.

Arguments: the URL of the server, a name for its keys, how many jobs. Prints jobs per second."""

import sys
import threading
import time

import dramatiq  # type: ignore[import-not-found, unused-ignore]
from dramatiq.brokers.redis import RedisBroker  # type: ignore[import-not-found, unused-ignore]

url, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
broker = RedisBroker(url=url, namespace=name)
dramatiq.set_broker(broker)
lock = threading.Lock()
all_ran = threading.Event()
left = count


@dramatiq.actor  # type: ignore[untyped-decorator, unused-ignore]
def nothing() -> None:
    global left
    with lock:
        left -= 1
        if not left:
            all_ran.set()


for _ in range(count):
    nothing.send()
# As many threads as its command line gives one process by default.
worker = dramatiq.Worker(broker, worker_threads=8)
began = time.perf_counter()
worker.start()
all_ran.wait()
sys.stdout.write(str(count / (time.perf_counter() - began)))
worker.stop()
