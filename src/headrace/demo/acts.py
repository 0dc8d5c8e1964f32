"""The acts of the demo, in the order they are shown. Each checks what it shows."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal

from headrace import Job, JobFailed, Reason, State
from headrace.demo import shop
from headrace.demo.topic_act import two_groups
from headrace.demo.workers import FRAME, PATIENCE, SLOTS, Show
from headrace.errors import ResultTimeout

_PHOTOS = 60
# More than one worker can hold, so that both must take some; not more than both can.
_PARCELS = 2 * SLOTS - 4
_DELAY = 1.5


async def many_at_once(show: Show) -> None:
    seconds = [0.2 + 0.1 * (photo % 7) for photo in range(_PHOTOS)]
    work = sum(seconds)
    show.stage.act(
        "Many jobs at once",
        f"{_PHOTOS} jobs, {work:.0f} s of work if done one after the other, go to two worker "
        f"processes that take {SLOTS} at a time each.",
    )
    began = time.monotonic()
    calls = [shop.make_thumbnail.call(photo, each) for photo, each in enumerate(seconds)]
    made = await show.results(await shop.app.enqueue_many(calls))
    wall = time.monotonic() - began
    show.counts.jobs += _PHOTOS
    right = sum(each.photo == photo for photo, each in enumerate(made))
    show.stage.check(
        right == _PHOTOS, f"{right} of {_PHOTOS} results came back, each to the job it is of"
    )
    peak = _peak(made)
    show.stage.check(
        wall < work and peak > 1,
        f"{wall:.1f} s instead of {work:.0f} s: up to {peak} jobs ran at the same time",
    )


async def retried(show: Show) -> None:
    show.stage.act(
        "A job that fails is tried again",
        "The bank does not answer the first attempt to charge a card; the task's retry policy "
        "allows two.",
    )
    payment = await show.result(await shop.charge_card.enqueue())
    show.counts.jobs += 1
    show.counts.retries += payment.attempt - 1
    for number, error in enumerate(payment.errors, 1):
        show.stage.mishap(f"attempt {number} failed: {error}")
    show.stage.check(
        payment == shop.Payment(2, ["ConnectionError: the bank did not answer"]),
        f"attempt {payment.attempt}, {shop.SOON.base:g} s later, succeeded",
    )


async def dead_and_replayed(show: Show) -> None:
    show.stage.act(
        "A job that cannot succeed is kept, and can be replayed",
        "No tax rate is known, so every attempt fails and the job is dead; once the rate is there, "
        "the same job is sent again.",
    )
    rates = show.workers.home / "tax-rate"
    job = await shop.add_tax.enqueue(10_000, str(rates))
    show.counts.jobs += 1
    await _shown_dead(show, job)
    rates.write_text("19")
    show.stage.fact("the tax rate is added: the bug is fixed")
    show.counts.replayed += await shop.app.admin.replay([job.id])
    cents = await show.result(job)
    show.stage.check(
        cents == 11_900, f"replayed, the job succeeds: 100.00 becomes {cents / 100:.2f}"
    )


async def killed_worker(show: Show) -> None:
    lease = shop.app.lease
    show.stage.act(
        "A worker is killed, and its jobs are done by another",
        f"SIGKILL hits a worker process in the middle of its jobs; when their lease of {lease:g} s "
        "runs out, the other takes them over.",
    )
    victim, survivor = show.workers.running
    go = show.workers.home / "go"
    calls = [
        shop.deliver_parcel.call(parcel, 0.1 + 0.1 * (parcel % 8), str(go))
        for parcel in range(_PARCELS)
    ]
    jobs = await shop.app.enqueue_many(calls)
    show.counts.jobs += _PARCELS
    holders = await _holders(show, jobs)
    await show.workers.kill(victim)
    orphans = {parcel for parcel, holder in enumerate(holders) if holder == victim.name}
    show.stage.mishap(
        f"worker {victim.pid} is killed with {len(orphans)} of {_PARCELS} jobs; {survivor.pid} has "
        f"the other {_PARCELS - len(orphans)}"
    )
    go.touch()
    _check_trips(show, await show.results(jobs), orphans, survivor.pid)


async def delayed(show: Show) -> None:
    show.stage.act(
        "A delayed job waits for its time",
        f"Sent with options(delay={_DELAY:g}), it starts after {_DELAY:g} s and never before.",
    )
    sent = time.time()
    job = await shop.ring_bell.options(delay=_DELAY).enqueue()
    show.counts.jobs += 1
    due = sent + _DELAY
    while (left := due - time.time()) > 0:
        show.stage.bar(_DELAY - left, _DELAY, f"due in {left:.1f} s")
        await asyncio.sleep(min(FRAME, left))
    rung = await show.result(job)
    show.stage.fact(f"sent at {_clock(sent)}, due at {_clock(due)}, started at {_clock(rung)}")
    # Stores count in whole milliseconds.
    late_ms = int(rung * 1000) - int(due * 1000)
    show.stage.check(late_ms >= 0, f"it started {late_ms} ms after its time, not before")


async def typed_result(show: Show) -> None:
    show.stage.act(
        "A result is what the task returned",
        "Arguments and results travel as bytes and arrive as what they were: a dataclass, with "
        "Decimals and a date.",
    )
    order = shop.Order(7, [Decimal("19.90"), Decimal("4.05")], date(2030, 5, 17))
    invoice = await show.result(await shop.write_invoice.enqueue(order))
    show.counts.jobs += 1
    show.stage.fact(repr(invoice))
    show.stage.check(
        type(invoice) is shop.Invoice and invoice == await shop.write_invoice(order),
        f"await job.result() gave an {type(invoice).__name__}, equal to the one made here",
    )


ACTS = (
    many_at_once,
    retried,
    dead_and_replayed,
    two_groups,
    killed_worker,
    delayed,
    typed_result,
)


async def play(show: Show) -> None:
    """Start the workers and show all acts. Raises if one cannot be played to its end."""
    for _ in range(2):
        await show.workers.start()
    await _roll_call(show)
    for act in ACTS:
        await act(show)


async def _roll_call(show: Show) -> None:
    """Wait until every worker process works, and learn their names."""
    running = show.workers.running
    jobs = [await shop.report_in.options(queue=worker.own_queue).enqueue() for worker in running]
    for worker, name in zip(running, await show.results(jobs, bar=False), strict=True):
        worker.name = name
    pids = " and ".join(str(worker.pid) for worker in running)
    show.stage.fact(f"worker processes {pids} are up")


def _peak(made: Sequence[shop.Thumbnail]) -> int:
    """How many of them were in the making at the same time, at most."""
    steps = sorted([(each.began, 1) for each in made] + [(each.ended, -1) for each in made])
    running = peak = 0
    for _, step in steps:
        running += step
        peak = max(peak, running)
    return peak


async def _shown_dead(show: Show, job: Job[int]) -> None:
    """Wait until the job is dead, and show what its attempts died of."""
    try:
        await show.result(job)
    except JobFailed as failed:
        reason, error_type = failed.reason, failed.error_type
    else:
        reason, error_type = "no error", ""
    info = await job.info()
    show.counts.retries += len(info.attempts) - 1
    for attempt in info.attempts:
        show.stage.mishap(f"attempt {attempt.number} failed: {attempt.error}")
    show.stage.check(
        reason == Reason.RETRIES_EXHAUSTED and error_type == LookupError.__name__,
        f"the job is {info.state} ({reason}), and kept with its errors",
    )


async def _holders(show: Show, jobs: Sequence[Job[shop.Trip]]) -> list[str | None]:
    """The workers that run the jobs, once all of them are running."""
    until = time.monotonic() + PATIENCE
    while True:
        infos = [await job.info() for job in jobs]
        if all(info.state is State.RUNNING for info in infos):
            return [info.worker for info in infos]
        show.workers.check_alive()
        if time.monotonic() > until:
            raise ResultTimeout(jobs[0].id, PATIENCE)
        await asyncio.sleep(FRAME)


def _check_trips(show: Show, trips: Sequence[shop.Trip], orphans: set[int], pid: int) -> None:
    """`orphans` are the parcels whose worker was killed, `pid` is the worker that is left."""
    again = [trip for trip in trips if trip.parcel in orphans and trip.delivery > 1]
    taken_over = [trip for trip in again if trip.pid == pid]
    show.counts.taken_over += len(taken_over)
    show.stage.check(
        bool(orphans) and len(taken_over) == len(orphans),
        f"{len(taken_over)} of those {len(orphans)} were taken over and done by {pid}",
    )
    done = len({trip.parcel for trip in trips})
    show.stage.check(
        done == _PARCELS, f"{done} of {_PARCELS} jobs are done, {_PARCELS - done} were lost"
    )


def _clock(moment: float) -> str:
    return datetime.fromtimestamp(moment).strftime("%H:%M:%S.%f")[:-3]
