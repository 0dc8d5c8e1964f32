"""One mail for all that happened to a user: notices gather by user, from all senders."""

import asyncio
import os
from dataclasses import dataclass

from headrace import Headrace

app = Headrace(os.environ.get("HEADRACE_URL") or "memory://", namespace="example-digests")


@dataclass
class Notice:
    user: str
    text: str


# At most four notices a mail. None waits for more than 20 seconds, and a mail goes as soon as there
# was no news for half a second.
@app.task(batch=4, batch_key="user", max_wait=20, grace=0.5)
async def mail_digest(notices: list[Notice]) -> list[str]:
    user, texts = notices[0].user, [notice.text for notice in notices]
    return [f"in a mail to {user}: {', '.join(texts)}"] * len(notices)


async def main() -> None:
    news = [
        Notice("ann", "a comment"),
        Notice("bob", "a reply"),
        Notice("ann", "two likes"),
        Notice("ann", "a follower"),
        Notice("bob", "an invitation"),
        Notice("ann", "a mention"),
        Notice("ann", "another comment"),
    ]
    async with app, app.worker():
        # Each notice is a job of its own: it has a result, and it is retried if its mail failed.
        jobs = await app.enqueue_many(mail_digest.call(notice) for notice in news)
        for notice, job in zip(news, jobs, strict=True):
            print(f"{notice.text} went {await job.result(timeout=30)}")


if __name__ == "__main__":
    asyncio.run(main())

# Prints:
# a comment went in a mail to ann: a comment, two likes, a follower, a mention
# a reply went in a mail to bob: a reply, an invitation
# two likes went in a mail to ann: a comment, two likes, a follower, a mention
# a follower went in a mail to ann: a comment, two likes, a follower, a mention
# an invitation went in a mail to bob: a reply, an invitation
# a mention went in a mail to ann: a comment, two likes, a follower, a mention
# another comment went in a mail to ann: another comment
