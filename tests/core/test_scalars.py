"""Numbers of other libraries travel as plain ones."""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from headrace import ArgumentError, Headrace
from headrace.core import codec


class Tensor:
    """As that of torch: a number, and no `numbers.Real`."""

    ndim = 0

    def __init__(self, value: Any) -> None:
        self._value = value

    def item(self) -> Any:
        return self._value


class Stamp(datetime):
    """As that of pandas."""


@dataclass
class Score:
    mean: Any
    count: Any


SCALARS = [
    (np.int64(7), 7),
    (np.uint8(255), 255),
    (np.float32(1.5), 1.5),
    (np.float64(2.5), 2.5),
    (np.longdouble(2.5), 2.5),
    (np.bool_(True), True),
    (np.str_("a"), "a"),
    (np.bytes_(b"a"), b"a"),
    (np.array(3), 3),
    (np.array(0.5, dtype=np.float16), 0.5),
    (Tensor(0.25), 0.25),
    (Fraction(1, 2), 0.5),
]


@pytest.mark.parametrize(("value", "plain"), SCALARS, ids=lambda each: type(each).__name__)
def test_a_scalar_travels_as_the_plain_value_wherever_it_stands(value: Any, plain: Any) -> None:
    for whole, expected in (
        (value, plain),
        ([value], [plain]),
        ({"a": {"b": value}}, {"a": {"b": plain}}),
        (Score(value, 1), {"mean": plain, "count": 1}),
    ):
        read = codec.decoder(Any)(codec.encode(whole))
        assert read == expected
        if whole is value:
            assert type(read) is type(plain)
    assert codec.decoder(type(plain))(codec.encode(value)) == plain
    assert codec.json_decoder(type(plain))(codec.encode_json(value)) == plain


def test_a_number_may_be_a_key() -> None:
    assert codec.decoder(dict[int, int])(codec.encode({np.int64(1): np.int8(2)})) == {1: 2}


@pytest.mark.parametrize("unit", ["D", "s", "us", "ns"])
def test_times_of_numpy_stay_times(unit: str) -> None:
    moment: Any = np.datetime64("2026-01-31").astype(f"datetime64[{unit}]")
    kind, plain = (date, date(2026, 1, 31)) if unit == "D" else (datetime, datetime(2026, 1, 31))
    assert codec.decoder(kind)(codec.encode(moment)) == plain
    length = np.timedelta64(2, "h").astype(f"timedelta64[{'h' if unit == 'D' else unit}]")
    assert codec.decoder(timedelta)(codec.encode(length)) == timedelta(hours=2)


def test_classes_derived_from_times_travel_as_these() -> None:
    stamp = Stamp(2026, 1, 31, 12, tzinfo=UTC)
    assert codec.decoder(datetime)(codec.encode([stamp][0])) == stamp


def test_a_parameter_of_that_type_gets_it_again() -> None:
    read = codec.decoder(np.float32)(codec.encode(np.float32(0.5)))
    assert (type(read), read) == (np.float32, 0.5)
    assert codec.decoder(Decimal)(codec.encode(Decimal("0.1"))) == Decimal("0.1")


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (np.arange(3), "numpy.ndarray"),
        (np.complex64(1), "complex"),
        (np.clongdouble(1), "numpy.clongdouble"),
        (Score, "type"),
    ],
)
def test_what_cannot_travel_is_named_with_its_module(value: Any, name: str) -> None:
    with pytest.raises(TypeError, match=f"^{name} is not a type that Headrace can send"):
        codec.encode([value])


def test_an_argument_without_an_annotation_is_no_reason_to_warn() -> None:
    app = Headrace("memory://")

    @app.task
    async def score(value) -> None: ...  # type: ignore[no-untyped-def]

    with warnings.catch_warnings(action="error"):
        assert score.call(np.float32(0.5)).payload == score.call(0.5).payload
    with pytest.raises(ArgumentError, match=r"argument 'value' cannot travel: numpy\.ndarray"):
        score.call(np.arange(3))


def test_headrace_does_not_import_numpy() -> None:
    import subprocess

    program = "import headrace.worker.worker, sys; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
