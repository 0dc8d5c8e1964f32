"""FastAPI: routes send jobs, a worker beside them runs them, the dashboard is part of the site."""

import os
import secrets
from typing import Annotated

from fastapi import Depends, FastAPI
from fastapi.testclient import TestClient

import headrace
from headrace import Headrace
from headrace.integrations.fastapi import depends, lifespan

jobs = Headrace(os.environ.get("HEADRACE_URL") or "memory://", namespace="example-fastapi")
# In production leave worker= out, and run `headrace worker` beside the web server.
web = FastAPI(lifespan=lifespan(jobs, worker=True))
# Serves this machine only, with a token; if none is given, it makes one and logs it.
# For other people give it users: headrace.dashboard(jobs, auth=…).
token = os.environ.get("HEADRACE_DASHBOARD_TOKEN") or secrets.token_urlsafe()
web.mount("/jobs", headrace.dashboard(jobs, token=token))
Jobs = Annotated[Headrace, Depends(depends(jobs))]


@jobs.task
async def total(prices: list[int]) -> int:
    return sum(prices)


@web.post("/orders")
async def order(prices: list[int]) -> str:
    return (await total.enqueue(prices)).id


@web.get("/orders/{id}")
async def look(id: str, jobs: Jobs) -> int:
    value: int = await jobs.job(id).result(timeout=10)
    return value


if __name__ == "__main__":
    with TestClient(web, "http://localhost", client=("127.0.0.1", 50000)) as client:
        id = client.post("/orders", json=[300, 120]).json()
        print(client.get(f"/orders/{id}").json())
        print("dashboard:", client.get(f"/jobs/?token={token}").status_code)

# Prints:
# 420
# dashboard: 200
