"""A function that takes many jobs at once; each job has its own end."""

import asyncio
import os

from headrace import BatchError, Headrace, JobFailed, Retry

app = Headrace(os.environ.get("HEADRACE_URL") or "memory://", namespace="example-batches")


@app.task(batch=4, max_wait=0.2)
async def insert(rows: list[str]) -> list[int]:
    print("insert", sorted(rows))
    return [len(row) for row in rows]


@app.task(batch=3, max_wait=0.2, retry=Retry(1))
def send_mails(addresses: list[str]) -> None:
    failed = {
        place: ValueError(f"{address!r} is no address")
        for place, address in enumerate(addresses)
        if "@" not in address
    }
    if failed:
        raise BatchError(failed)


async def main() -> None:
    async with app, app.worker():
        jobs = await app.enqueue_many(insert.call(row) for row in ("a", "bb", "ccc", "dddd", "ee"))
        print([await job.result(timeout=10) for job in jobs])

        mails = await app.enqueue_many(
            send_mails.call(to) for to in ("a@x.org", "nobody", "b@x.org")
        )
        for mail in mails:
            try:
                await mail.result(timeout=10)
            except JobFailed as failed:
                print(failed.error_text)
        print([str(await mail.status()) for mail in mails])


if __name__ == "__main__":
    asyncio.run(main())

# Prints:
# insert ['a', 'bb', 'ccc', 'dddd']
# insert ['ee']
# [1, 2, 3, 4, 2]
# 'nobody' is no address
# ['done', 'dead', 'done']
