"""An app in which every text that a user can choose is meant to do harm."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from headrace import Context, Headrace, Retry, chain
from tests.browser.shop import has_dead, is_at, until

# No spaces, braces or control characters: what the names of queues and tasks may hold.
NAME = "\"><img/src=x/onerror=window.hacked=1></script><svg/onload=window.hacked=1>'"
LONG_NAME = "W" * 180
TEXT = "\n".join(
    (
        "<script>window.hacked = 1</script>",
        "\"'><img src=x onerror='window.hacked = 1'>",
        "</pre></textarea></title></script></style><svg onload=window.hacked=1>",
        "javascript:window.hacked=1",
        "<a href='javascript:window.hacked=1'>click</a><iframe src='javascript:window.hacked=1'>",
        "{{ 7 * 7 }} ${7 * 7} <!-- ]]> &lt;b&gt; %3Cscript%3E",
        "\x1b[31;5mred\x1b]0;title\x07\x9b2J\x00\x08\x7f\r",
        "\u202egnp.exe \u2066\u200b\u200f\ufeff\u2028\u2029",
        "z\u0351\u036b\u0343" * 40,
        "W" * 3_000,
    )
)
# A key groups events; it may not hold control characters, nor be longer.
KEY = "<script>window.hacked = 1</script>\u202egnp.exe\u200b"
MEGABYTE = "<script>window.hacked = 1</script>" * 30_000
UNSEEN = frozenset("\x1b\x07\x00\x08\x7f\x9b\u202e\u2066\u200b\u200f\ufeff\u2028\u2029\ud800")

Harm = type("<img src=x onerror=window.hacked=1>", (Exception,), {})


@dataclass
class Event:
    text: str
    fails: bool


class Hostile:
    def __init__(self, url: str) -> None:
        self.app = app = Headrace(url, namespace="hostile", lease=600)
        self.end = asyncio.Event()
        once = Retry(1)
        self.fail = app.task(name=NAME, queue=NAME, retry=once)(self._fail)
        self.hold = app.task(name=LONG_NAME, queue=LONG_NAME)(self._hold)
        app.cron("0 3 * * *", name=NAME[:90], args=[TEXT, 1])(self.fail)
        self.topic = app.topic("<b>topic</b>", Event, key=lambda event: KEY)
        self.topic.subscribe(NAME, ordered=True, retry=once)(self._handle)

    async def _fail(self, text: str, more: object) -> None:
        raise Harm(text)

    async def _hold(self, ctx: Context, text: str) -> str:
        for line in (text, *text.split("\n")):
            ctx.log(line)
        ctx.progress(0.5, text)
        await self.end.wait()
        return text

    async def _handle(self, event: Event) -> None:
        if event.fails:
            raise Harm(event.text)


async def pages(hostile: Hostile) -> dict[str, dict[str, str]]:
    """Paths and queries of all pages, once something harmful is on each; a worker runs."""
    app, text = hostile.app, TEXT
    running = await hostile.hold.options(
        headers={"x-<b>": text[:2_000], "W" * 100: "long"}
    ).enqueue(text)
    dead = await hostile.fail.enqueue(text, MEGABYTE)
    other = await hostile.fail.enqueue(text, {text: [text, b"\xff<b>", {"a": text}]})
    flow = await app.enqueue(chain(hostile.hold.call(text), hostile.fail.call(more=1)))
    await hostile.topic.publish_many([Event(text, at == 1) for at in range(4)])
    await hostile.topic.publish(
        Event(text, False), type=KEY, correlation_id=KEY, headers={"x": text[:500]}
    )
    group = f"{NAME}@{hostile.topic.name}"
    await until(lambda: has_dead(app, group, 1))
    await until(lambda: has_dead(app, NAME, 2))
    await until(lambda: is_at(app, running.id, 0.5))
    (event,) = await app.admin.dead(group)
    await app.admin.by(text).pause(NAME, "<script>")
    return {
        "/": {},
        "/queues": {"search": "<"},
        "/queue": {"name": NAME},
        "/jobs": {"text": "<script>", "queue": LONG_NAME},
        "/job": {"id": running.id},
        "/find": {"id": flow.id},
        "/dead": {"text": "<img"},
        "/dead_job": {"id": other.id},
        "/job ": {"id": dead.id},
        "/job  ": {"id": event.id, "queue": group},
        "/schedules": {},
        "/topics": {},
        "/topic": {"name": hostile.topic.name},
        "/group": {"topic": hostile.topic.name, "group": NAME},
        "/workers": {},
        "/actions": {},
    }
