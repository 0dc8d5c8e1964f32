"""Jobs that wait for other jobs, and receive their results."""

import asyncio
import os

from headrace import Headrace, JobFailed, Retry, chain, group

app = Headrace(os.environ.get("HEADRACE_URL") or "memory://", namespace="example-flows")


@app.task
async def fetch(page: int) -> str:
    return f"the text of page {page}"


@app.task(queue="cpu")
def count_words(text: str) -> int:
    return len(text.split())


@app.task
async def add_up(counts: list[int]) -> int:
    return sum(counts)


@app.task(retry=Retry(1))
async def fail() -> int:
    raise ConnectionError("no route")


@app.task
async def clean_up() -> str:
    return "cleaned up all the same"


async def main() -> None:
    async with app, app.worker():
        flow = await app.enqueue(chain(fetch.call(1), count_words.call()))
        print("chain:", await flow.result(timeout=10))

        pages = [chain(fetch.call(page), count_words.call()) for page in range(3)]
        flow = await app.enqueue(group(pages).then(add_up.call()))
        print("group, then:", await flow.result(timeout=10), "of", len(flow.jobs), "jobs")

        broken = fail.call()
        never = await app.enqueue(add_up.call([1]).after(broken))
        try:
            await never.result(timeout=10)
        except JobFailed as failed:
            print("after a failure:", failed.reason)
        tidy = await app.enqueue(clean_up.call().after(fail.call(), if_failed="run"))
        print("if_failed='run':", await tidy.result(timeout=10))


if __name__ == "__main__":
    asyncio.run(main())

# Prints:
# chain: 5
# group, then: 15 of 7 jobs
# after a failure: parent_failed
# if_failed='run': cleaned up all the same
