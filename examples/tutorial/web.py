# web.py
from datetime import timedelta

from fastapi import FastAPI
from headrace.integrations.fastapi import lifespan
from pydantic import BaseModel

from shop import app, ask_for_review, send_receipt

web = FastAPI(lifespan=lifespan(app))


class Order(BaseModel):
    mail: str
    total: int


@web.post("/orders")
async def order(order: Order) -> dict[str, str]:
    job = await send_receipt.enqueue(order.mail, order.total)
    await ask_for_review.options(delay=timedelta(days=3)).enqueue(order.mail)
    return {"receipt": job.id}


@web.get("/receipts/{id}")
async def receipt(id: str) -> dict[str, str]:
    return {"state": await app.job(id).status()}


@web.get("/health")
async def health() -> str:
    return "ok"
