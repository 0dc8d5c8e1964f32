"""Wrap code around every send and every run."""

import asyncio
import os
from typing import Any

from headrace import Call, Context, Headrace, Job, JobFailed, Middleware, Retry
from headrace.middleware import CaptureErrors, JobRun, Proceed, Send

app = Headrace(os.environ.get("HEADRACE_URL") or "memory://", namespace="example-middleware")

tenant = "eu"
captured: list[BaseException] = []


class Tenants(Middleware):
    """The sender sets a header, and the worker reads it."""

    async def send(self, call: Call[Any], send: Send) -> Job[Any]:
        return await send(call.with_headers({"tenant": tenant}))

    async def run(self, run: JobRun, proceed: Proceed) -> Any:
        print("begin", run.task.name, "for", run.context.headers["tenant"])
        return await proceed()


app.middleware(Tenants(), CaptureErrors(captured.append))


@app.task
async def greet(ctx: Context, name: str) -> str:
    return f"Good morning, {name}"


@app.task(retry=Retry(1))
async def fail() -> None:
    raise RuntimeError("for Sentry")


async def main() -> None:
    async with app, app.worker():
        print(await (await greet.enqueue("Ada")).result(timeout=10))
        try:
            await (await fail.enqueue()).result(timeout=10)
        except JobFailed as failed:
            print(failed.reason, "-", captured)


if __name__ == "__main__":
    asyncio.run(main())

# Prints:
# begin greet for eu
# Good morning, Ada
# begin fail for eu
# retries_exhausted - [RuntimeError('for Sentry')]
