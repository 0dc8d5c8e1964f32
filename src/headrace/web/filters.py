"""Which jobs someone asks for: from an address or a form, in words, and for the admin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, TypedDict

from headrace.core.job.state import Reason, State
from headrace.web.page import Refusal
from headrace.web.wording import clip

if TYPE_CHECKING:
    from headrace.web.page import Visit

PERIODS: dict[str, tuple[str, timedelta]] = {
    "15m": ("last 15 minutes", timedelta(minutes=15)),
    "1h": ("last hour", timedelta(hours=1)),
    "24h": ("last 24 hours", timedelta(hours=24)),
    "7d": ("last 7 days", timedelta(days=7)),
}
STATES = (State.RUNNING, State.WAITING, State.BLOCKED, State.SCHEDULED, State.DEAD)
REASONS = tuple(Reason)
_OF_BOTH = ("queue", "task", "text", "when", "from", "to")
OF_JOBS = (*_OF_BOTH, "state")
OF_DEAD = (*_OF_BOTH, "reason")


class Conditions(TypedDict, total=False):
    """What jobs and dead jobs are both asked for with."""

    task: str | None
    search: str | None
    arguments: bool
    since: datetime | timedelta | None
    until: datetime | timedelta | None


@dataclass(frozen=True, slots=True)
class Filter:
    """What was asked for, as it was typed; nothing said is nothing asked."""

    fields: dict[str, str]

    @classmethod
    def of(cls, given: Mapping[str, str], names: Sequence[str]) -> Filter:
        """What is given under these names, which have to be those that are gone by."""
        return cls({name: text for name in names if (text := given.get(name, "").strip())})

    def get(self, name: str) -> str | None:
        return self.fields.get(name)

    def conditions(self, visit: Visit) -> Conditions:
        """For the admin; queue, state and reason are not among them. `Refusal` if a time cannot be
        read."""
        period = _period(self.get("when"))
        return Conditions(
            task=self.get("task"),
            search=self.get("text"),
            since=_moment(self.get("from")) or (period[1] if period else None),
            until=_moment(self.get("to")),
        )

    def in_words(self, what: str, happened: str, everywhere: str) -> str:
        """Such as "all dead jobs of task send in queue mail that died in the last hour"; if no
        queue is asked for, it is `everywhere`."""
        queue, task, text = self.get("queue"), self.get("task"), self.get("text")
        reason, when = self.get("reason"), self._when()
        parts = [
            f"all {what}",
            f"of task {clip(task)}" if task else "",
            f"in queue {clip(queue)}" if queue else everywhere,
            f"with the reason {clip(reason)}" if reason else "",
            f"with the text “{clip(text)}”" if text else "",
            f"that {happened} {when}" if when else "",
        ]
        return " ".join(filter(None, parts))

    def _when(self) -> str:
        since, until = _moment(self.get("from")), _moment(self.get("to"))
        period = _period(self.get("when"))
        bounds = [
            f"since {_said(since)}" if since else f"in the {period[0]}" if period else "",
            f"before {_said(until)}" if until else "",
        ]
        return " and ".join(filter(None, bounds))


def _period(text: str | None) -> tuple[str, timedelta] | None:
    if text and text not in PERIODS:
        raise Refusal(400, f"{clip(text)} is no period: there are {', '.join(PERIODS)}.")
    return PERIODS[text] if text else None


def _moment(text: str | None) -> datetime | None:
    """What a browser's field for a time, or someone who writes an address, gives; in UTC."""
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise Refusal(400, f"{clip(text)} is not a time such as 2026-01-31T12:00.") from None


def _said(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%d %H:%M:%S UTC")
