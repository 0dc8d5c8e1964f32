"""Finding jobs by a text that someone remembers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headrace.admin.bodies import arguments_of
from headrace.client.job import AttemptInfo
from headrace.core import ids
from headrace.core.ids import JobKey
from headrace.core.job import Envelope, decode_past


@dataclass(frozen=True, slots=True)
class Search:
    """A text in the id, the errors or, if `arguments` says so, the arguments of a job, in small
    letters or capitals; the empty one is in all."""

    text: str = ""
    arguments: bool = True

    @classmethod
    def of(cls, text: str | None, *, arguments: bool = True) -> Search:
        return cls((text or "").casefold(), arguments)

    def finds(self, key: JobKey, envelope: Envelope | None, past: bytes) -> bool:
        return not self.text or any(
            self.text in text.casefold() for text in self._texts(key, envelope, past)
        )

    def _texts(self, key: JobKey, envelope: Envelope | None, past: bytes) -> Iterable[str]:
        """Where to look, what is cheap to make first."""
        yield ids.to_text(key)
        for attempt in decode_past(past).attempts:
            yield AttemptInfo.of(attempt).error
        if self.arguments and envelope is not None:
            yield repr(arguments_of(envelope))


def any_asked(conditions: Mapping[str, object]) -> bool:
    """Whether any of the conditions leaves jobs out."""
    return any(value is not None for name, value in conditions.items() if name != "arguments")
