"""Arguments that become something else, since nothing says what they are."""

from __future__ import annotations

import warnings
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from headrace import Context, Headrace
from headrace.core.task.signature import Signature


def bill(order, amount, due=None): ...  # type: ignore[no-untyped-def]
def typed(order: str, amount: Decimal, due: Any = None) -> None: ...


def test_each_argument_that_changes_is_warned_of_once_where_the_function_is() -> None:
    signature = Signature(bill, "shop.bill", Context)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        for _ in range(2):
            signature.encode(("o-1", Decimal("1.5")), {"due": date(2026, 1, 1)})
    assert [str(each.message) for each in warned] == [
        "argument 'amount' of task 'shop.bill' is of type Decimal, and arrives as str: write "
        "amount: Decimal in the function, and it arrives as it was",
        "argument 'due' of task 'shop.bill' is of type date, and arrives as str: write due: date "
        "in the function, and it arrives as it was",
    ]
    assert {(each.filename, each.lineno) for each in warned} == {(__file__, 16)}


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (bill, ("o-1", 1.5, datetime(2026, 1, 1, tzinfo=UTC))),
        (bill, ("o-1", [1, "x"], {"a": None})),
        (bill, ("o-1", (1, 2), b"bytes")),
        (typed, ("o-1", Decimal("1.5"), date(2026, 1, 1))),
    ],
)
def test_what_stays_as_it_is_or_has_an_annotation_is_not(function: Any, args: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Signature(function, "shop.bill", Context).encode(args, {})


async def test_a_sender_hears_of_it(recwarn: pytest.WarningsRecorder) -> None:
    app = Headrace("memory://")
    app.task(bill)
    with app.testing() as headrace, warnings.catch_warnings():
        warnings.simplefilter("always")
        await app.tasks["bill"].enqueue("o-1", Decimal("1.5"))
        assert await headrace.drain() == 1
    assert "arrives as str" in str(recwarn.pop(UserWarning).message)
