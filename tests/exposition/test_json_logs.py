"""One JSON object per line, whatever is logged."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import headrace
from headrace import Headrace, JsonFormatter
from headrace.middleware.log_runs import LogRuns


class Book:
    """A logger of its own, and what it has written."""

    def __init__(self, **fields: Any) -> None:
        self.stream = io.StringIO()
        handler = logging.StreamHandler(self.stream)
        handler.setFormatter(JsonFormatter(**fields))
        self.log = logging.Logger("shop", logging.DEBUG)
        self.log.addHandler(handler)

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.stream.getvalue().splitlines()]


@pytest.fixture
def book() -> Book:
    return Book()


def test_a_line_has_time_level_logger_message_and_what_was_given_as_extra(book: Book) -> None:
    before = datetime.now(UTC)
    book.log.warning("job %s is %s", "j-1", "late", extra={"job": "j-1", "attempt": 2})
    (line,) = book.lines
    time = line.pop("time")
    assert time.endswith("Z")
    assert abs((datetime.fromisoformat(time) - before).total_seconds()) < 60
    assert line == {
        "level": "WARNING",
        "logger": "shop",
        "message": "job j-1 is late",
        "job": "j-1",
        "attempt": 2,
    }


def test_an_exception_is_a_field_of_the_same_line(book: Book) -> None:
    try:
        raise ValueError("no\nway")
    except ValueError:
        book.log.exception("it failed")
    (line,) = book.lines
    assert line["exception"].startswith("Traceback")
    assert line["exception"].endswith("ValueError: no\nway")


def test_fields_of_the_formatter_are_on_every_line() -> None:
    book = Book(worker="w-1")
    book.log.info("a")
    book.log.info("b", extra={"queue": "mail"})
    assert [line["worker"] for line in book.lines] == ["w-1", "w-1"]


class Hostile:
    def __repr__(self) -> str:
        raise RuntimeError("no")


class Number(int):
    def __abs__(self) -> int:
        raise RuntimeError("no")


class Changing(Mapping[str, int]):
    """As if another thread were at it."""

    def __getitem__(self, name: str) -> int:
        return 1

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[str]:
        raise RuntimeError("changed size during iteration")

    def __repr__(self) -> str:
        return "Changing()"


class Moment(datetime):
    def isoformat(self, *_: Any) -> Any:
        return Hostile()


def endless() -> list[Any]:
    found: list[Any] = []
    found.append(found)
    return found


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (float("nan"), "nan"),
        (2**80, str(2**80)),
        (10**5000, "<int without a repr>"),
        (b"\xff", "b'\\xff'"),
        ({1, 2}, [1, 2]),
        ({(1, 2): Hostile()}, {"(1, 2)": "<Hostile without a repr>"}),
        ("\ud800\u2028\x1b[31m", "\ud800\u2028\x1b[31m"),
        (datetime(2030, 1, 2, tzinfo=UTC), "2030-01-02T00:00:00+00:00"),
        (None, None),
        (Number(5), "5"),
        ([1, Changing()], [1, "Changing()"]),
        (Moment(2030, 1, 2), "<Hostile without a repr>"),
    ],
    ids=[
        "nan", "large", "larger", "bytes", "set", "hostile", "text", "time", "none", "number",
        "changing", "moment",
    ],
)  # fmt: skip
def test_strange_values_are_written_somehow(book: Book, value: Any, written: Any) -> None:
    book.log.info("x", extra={"value": value})
    (line,) = book.lines
    assert line["value"] == written
    assert book.stream.getvalue().isascii()


def test_a_value_that_holds_itself_has_an_end(book: Book) -> None:
    book.log.info("x", extra={"value": endless()})
    assert len(book.lines) == 1


def test_arguments_that_do_not_fit_lose_nothing(book: Book) -> None:
    book.log.info("%d jobs", "many")
    assert book.lines[0]["message"] == "'%d jobs' ('many',)"


def test_an_extra_of_one_of_our_names_is_kept_beside_ours(book: Book) -> None:
    book.log.info("x", extra={"time": "soon", "level": 3})
    (line,) = book.lines
    assert line["time_"] == "soon"
    assert line["level_"] == 3
    assert line["level"] == "INFO"


def test_no_field_is_lost_over_a_name(book: Book) -> None:
    book.log.info("x", extra={"time": "soon", "time_": "late", "exception": 1, "time__": 2})
    (line,) = book.lines
    assert (line["time_"], line["time__"], line["time___"]) == ("late", 2, "soon")
    assert line["exception_"] == 1


def formatted(**fields: Any) -> dict[str, Any]:
    """The line of a record that was not made by a logger."""
    line: dict[str, Any] = json.loads(JsonFormatter().format(logging.makeLogRecord(fields)))
    return line


def test_a_record_made_by_hand_is_written_too() -> None:
    assert formatted(created=1e20)["time"] == "1e+20"
    assert formatted(exc_text="ValueError: far away")["exception"] == "ValueError: far away"
    assert "exception" not in formatted(exc_info=True)
    assert "ValueError: x" in formatted(exc_info=ValueError("x"))["exception"]
    assert formatted(exc_info=(ValueError, 5, 7))["exception"] == "ValueError"
    try:
        raise ValueError("no")
    except ValueError:
        assert "ValueError: no" in formatted(exc_info=True)["exception"]


def test_whatever_happens_there_is_a_line() -> None:
    class Nameless(type):
        @property
        def __name__(cls) -> str:  # type: ignore[override]
            raise RuntimeError("no")

    class Worst(Hostile, metaclass=Nameless):
        def __bool__(self) -> bool:
            raise RuntimeError("no")

    assert formatted(value=Worst())["value"] == "<something without a repr>"
    assert formatted(exc_info=Worst()) == {"message": "not loggable: RuntimeError"}


async def test_a_line_about_a_run_says_which_job_it_was() -> None:
    book = Book()
    app = Headrace("memory://")
    app.middleware(LogRuns(book.log))

    @app.task(queue="mail")
    async def add(a: int, b: int) -> int:
        return a + b

    worker = app.worker()
    async with app, worker:
        job = await add.enqueue(1, 2)
        assert await job.result(30) == 3
    (line,) = book.lines
    fields = {name: line[name] for name in ("job", "queue", "task", "attempt", "worker", "outcome")}
    assert fields == {
        "job": job.id,
        "queue": "mail",
        "task": "add",
        "attempt": 1,
        "worker": worker.name,
        "outcome": "done",
    }
    assert line["took_ms"] >= 0


def test_the_root_logger_is_set_up_by_the_command_line_alone() -> None:
    root = Path(headrace.__file__).parent
    touching = re.compile(r"logging\.(basicConfig|root|config|getLogger\(\))")
    modules = [path for path in root.rglob("*.py") if touching.search(path.read_text())]
    assert {path.parent for path in modules} == {root / "cli"}
