"""Functions in threads, with nothing around them."""

from __future__ import annotations

import gc

from headrace import Headrace
from headrace.worker.threads.thread_function import FunctionCall
from tests.worker.states import until

COUNT = 50


async def test_runs_in_threads_leave_nothing_to_the_garbage_collector(app: Headrace) -> None:
    """They come by the ten thousand: to find them again would take as long as to run them."""
    ran: list[int] = []

    @app.task(result_ttl=0)
    def plain(number: int) -> None:
        ran.append(number)

    async with app.worker(threads=1):
        gc.collect()
        gc.disable()
        try:
            await app.enqueue_many(plain.call(number) for number in range(COUNT))
            await until(lambda: len(ran) == COUNT)
            # The thread may still have the last one.
            await until(lambda: _calls() <= 1)
        finally:
            gc.enable()


def _calls() -> int:
    """How many there are among what was made since garbage was last collected."""
    return sum(type(each) is FunctionCall for each in gc.get_objects(generation=0))
