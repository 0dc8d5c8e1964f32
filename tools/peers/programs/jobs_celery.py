"""Celery. Without a result backend it keeps no results."""

import sys

from celery import Celery
from runs import BARE, URL, note_run, report_sends

app = Celery("jobs_celery", broker=URL, backend=None if BARE else URL)
app.conf.broker_connection_retry_on_startup = True


@app.task
def plain() -> None:
    note_run()


if __name__ == "__main__":
    report_sends(plain.delay, int(sys.argv[2]))
