"""Record every delivery in a topic of its own."""

import asyncio
import os

from headrace import AuditRecord, Headrace, Retry

app = Headrace(os.environ.get("HEADRACE_URL") or "memory://", namespace="example-audit")

trail = app.topic("trail", AuditRecord)
app.audit(trail)

archived: asyncio.Queue[AuditRecord] = asyncio.Queue()


@trail.subscribe("archive")
async def archive(record: AuditRecord) -> None:
    await archived.put(record)


@app.task(retry=Retry(2, backoff=[0.01], jitter=False))
async def charge(cents: int) -> None:
    if cents > 900:
        raise ConnectionError("the bank is closed")


async def main() -> None:
    async with app, app.worker():
        for cents in (100, 995):
            await charge.enqueue(cents)
        records = [await archived.get() for _ in range(3)]
    for record in sorted(records, key=lambda record: (record.id, record.attempt)):
        print(record.task, record.attempt, record.outcome, record.error_text or "-")


if __name__ == "__main__":
    asyncio.run(main())

# Prints:
# charge 1 done -
# charge 1 retry the bank is closed
# charge 2 dead the bank is closed
