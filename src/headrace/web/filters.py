"""Filters of jobs, from the fields of an address or a form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from headrace.admin import JobFilter
from headrace.core.job.state import FINAL, LIVE, Reason
from headrace.web.page import PageError
from headrace.web.rendering.formatting import clip

PERIODS: dict[str, tuple[str, timedelta]] = {
    "15m": ("last 15 minutes", timedelta(minutes=15)),
    "1h": ("last hour", timedelta(hours=1)),
    "24h": ("last 24 hours", timedelta(hours=24)),
    "7d": ("last 7 days", timedelta(days=7)),
}
STATES = (*LIVE, *FINAL)
REASONS = tuple(Reason)
_OF_BOTH = ("queue", "task", "tag", "text", "when", "from", "to")
OF_JOBS = (*_OF_BOTH, "state")
OF_DEAD = (*_OF_BOTH, "reason", "error_type", "place")


@dataclass(frozen=True, slots=True)
class FilterForm:
    """The fields of a filter as they were typed, without empty ones."""

    fields: dict[str, str]

    @classmethod
    def of(cls, given: Mapping[str, str], names: Sequence[str]) -> FilterForm:
        """The fields with these names."""
        return cls({name: text for name in names if (text := given.get(name, "").strip())})

    def get(self, name: str) -> str | None:
        return self.fields.get(name)

    def parsed(self) -> JobFilter:
        """The filter; `PageError` if a time cannot be read."""
        return JobFilter(
            queue=self.get("queue"),
            state=self.get("state"),
            reason=self.get("reason"),
            error_type=self.get("error_type"),
            place=self.get("place"),
            task=self.get("task"),
            tag=self.get("tag"),
            search=self.get("text"),
            since=moment_of(self.get("from")) or _period(self.get("when")),
            until=moment_of(self.get("to")),
        )


def _period(text: str | None) -> timedelta | None:
    if text and text not in PERIODS:
        raise PageError(400, f"{clip(text)} is no period: there are {', '.join(PERIODS)}.")
    return PERIODS[text][1] if text else None


def moment_of(text: str | None) -> datetime | None:
    """The time in a field of a form or an address, in UTC unless it has a zone; None if empty.
    `PageError` if it cannot be read."""
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise PageError(400, f"{clip(text)} is not a time such as 2026-01-31T12:00.") from None
