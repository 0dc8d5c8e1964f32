"""What a scrape finds."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

from prometheus_client.parser import text_string_to_metric_families


class Scrape:
    """Samples of a page, by name and labels."""

    def __init__(self, text: str) -> None:
        self.types: dict[str, str] = {}
        self._samples: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
        for family in text_string_to_metric_families(text):
            self.types[family.name] = family.type
            for sample in family.samples:
                place = sample.name, frozenset(sample.labels.items())
                assert place not in self._samples, f"{place} is there twice"
                self._samples[place] = sample.value

    @property
    def names(self) -> set[str]:
        """Of all samples."""
        return {name for name, _ in self._samples}

    def value(self, name: str, **labels: str) -> float | None:
        """The sample with exactly these labels."""
        return self._samples.get((name, frozenset(labels.items())))

    def total(self, name: str, **labels: str) -> float:
        """The sum of all samples that have these labels among others."""
        wanted = set(labels.items())
        found = self._samples.items()
        return sum(v for (each, has), v in found if each == name and wanted <= has)


def got(url: str, **headers: str) -> tuple[int, bytes, dict[str, str]]:
    """Status, body and headers, whatever the status is."""
    request = urllib.request.Request(url, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.read(), dict(answer.headers)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read(), dict(error.headers)


def scraped(base: str) -> Scrape:
    status, body, _ = got(f"{base}/metrics")
    assert status == 200, body
    return Scrape(body.decode())


def health(url: str) -> tuple[int, dict[str, Any]]:
    status, body, _ = got(url)
    found: dict[str, Any] = json.loads(body)
    return status, found
