"""Commands for people to paste; names in them are quoted."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from headrace.cli.app_loader import looks_like_app


def command(*verb: str, words: tuple[str, ...] = (), **options: str) -> str:
    """A command of ours that, pasted into a shell, means these words and options and nothing else,
    whatever they hold."""
    parts = ["headrace", *verb]
    if words and looks_like_app(words[0]):
        # It would be taken for the app, and imported.
        parts += ["--app", "APP"]
    named = list(map(shlex.quote, words))
    if any(word.startswith("-") for word in words):
        # Behind two dashes, nothing is an option.
        return " ".join([*parts, *_given(options), "--", *named])
    return " ".join([*parts, *named, *_given(options)])


def _given(options: Mapping[str, str]) -> list[str]:
    return [
        f"--{name}{'=' if value.startswith('-') else ' '}{shlex.quote(value)}"
        for name, value in options.items()
    ]


def reading(queue: str) -> str:
    """How to have a worker read a queue."""
    if "," in queue:
        return "run a worker whose app has it"
    # Behind its own "=", a number would be taken for its weight.
    weighted = f"{queue}=1" if "=" in queue else queue
    return f"run headrace worker with -Q {shlex.quote(weighted)}"
