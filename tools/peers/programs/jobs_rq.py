"""RQ. It finds functions by their import path."""

import sys

import jobs_rq
from redis import Redis
from rq import Queue
from runs import BARE, URL, note_run, report_sends


def plain() -> None:
    note_run()


if __name__ == "__main__":
    queue = Queue(connection=Redis.from_url(URL))
    options = {"result_ttl": 0} if BARE else {}
    report_sends(lambda: queue.enqueue(jobs_rq.plain, **options), int(sys.argv[2]))
