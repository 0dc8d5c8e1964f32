"""Drain functions that do nothing with Huey. Run by the Python of its own environment: nothing of
Headrace is imported here.

Arguments: the URL of the server, a name for its keys, how many jobs. Prints jobs per second."""

import logging
import sys
import threading
import time

from huey import RedisHuey  # type: ignore[import-not-found, unused-ignore]

url, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
# Its command line logs each task; a queue that is compared does not.
logging.disable(logging.WARNING)
huey = RedisHuey(name, url=url)
lock = threading.Lock()
all_ran = threading.Event()
left = count


@huey.task()  # type: ignore[untyped-decorator, unused-ignore]
def nothing() -> None:
    global left
    with lock:
        left -= 1
        if not left:
            all_ran.set()


for _ in range(count):
    nothing()
# One thread, as by default: no-op functions gain nothing by more.
consumer = huey.create_consumer(workers=1)
began = time.perf_counter()
consumer.start()
all_ran.wait()
sys.stdout.write(str(count / (time.perf_counter() - began)))
consumer.stop()
