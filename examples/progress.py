"""A job reports how far it is, and another program watches."""

import asyncio
import os

from headrace import Context, Headrace

app = Headrace(os.environ.get("HEADRACE_URL") or "memory://", namespace="example-progress")


seen = asyncio.Event()


@app.task
async def export(ctx: Context, pages: int) -> int:
    for page in range(1, pages + 1):
        ctx.log(f"wrote page {page}")
        ctx.progress(page / pages, f"page {page} of {pages}")
        # Of several quick reports only the latest is sent, so wait until this one was seen.
        await seen.wait()
        seen.clear()
    return pages


async def main() -> None:
    async with app, app.worker():
        job = await export.enqueue(3)
        async for update in job.watch(poll=10):
            if update.progress:
                print(f"{update.progress.fraction:.0%}", update.progress.text, *update.lines)
                seen.set()
        print(update.state, await job.result(timeout=10))
        print(await job.log())


if __name__ == "__main__":
    asyncio.run(main())

# Prints:
# 33% page 1 of 3 wrote page 1
# 67% page 2 of 3 wrote page 2
# 100% page 3 of 3 wrote page 3
# done 3
# ['wrote page 1', 'wrote page 2', 'wrote page 3']
