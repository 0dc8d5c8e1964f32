"""Values as MessagePack and back, by their type."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Any

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core import codec

texts = st.text(st.characters(exclude_categories=["Cs"]))
plain: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | texts
    | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)


class Money(pydantic.BaseModel):
    cents: int
    currency: str = "EUR"


@given(plain)
def test_a_plain_value_comes_back_without_a_type(value: Any) -> None:
    assert codec.decoder(Any)(codec.encode(value)) == value


@given(plain)
def test_converting_does_what_decoding_does(value: Any) -> None:
    assert codec.convert(value, Any) == value


@given(st.binary(max_size=60))
def test_bytes_that_do_not_fit_raise_what_is_declared(data: bytes) -> None:
    for kind in (int, list[str], dict[str, int], Money, Path, Any):
        try:
            codec.decoder(kind)(data)
        except codec.DECODE_ERRORS:
            continue


def test_deep_nesting_is_refused_not_survived_by_luck() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(codec.ENCODE_ERRORS):
        codec.encode(deep)
    with pytest.raises(codec.DECODE_ERRORS):
        codec.decoder(Any)(b"\x91" * 100_000 + b"\x90")


def test_a_pydantic_model_travels_as_a_map() -> None:
    data = codec.encode(Money(cents=995))
    assert msgspec.msgpack.decode(data) == {"cents": 995, "currency": "EUR"}
    assert codec.decoder(Money)(data) == Money(cents=995)
    assert codec.convert({"cents": 995}, Money) == Money(cents=995)


def test_a_pydantic_model_refuses_what_is_not_one() -> None:
    with pytest.raises(codec.DECODE_ERRORS, match="cents"):
        codec.decoder(Money)(codec.encode({"currency": "EUR"}))


def test_a_path_travels_as_text() -> None:
    assert msgspec.msgpack.decode(codec.encode(Path("a/b"))) == "a/b"
    assert codec.decoder(PurePosixPath)(codec.encode("a/b")) == PurePosixPath("a/b")
    assert codec.convert("a/b", Path) == Path("a/b")


def test_a_type_without_a_form_is_refused_by_name() -> None:
    with pytest.raises(TypeError, match="complex is not a type that Headrace can send"):
        codec.encode(1j)
    with pytest.raises(codec.DECODE_ERRORS, match="complex"):
        codec.decoder(complex)(codec.encode(1))


def test_sets_are_in_the_same_order_in_every_process() -> None:
    class Unequal:
        """Never sorted nor hashed alike."""

    value = {"b": [{"z", "a", 1}], "a": ({frozenset({2, 1})}, None)}
    assert codec.with_sets_sorted(value) == {"b": [[1, "a", "z"]], "a": [[[1, 2]], None]}
    assert list(codec.with_sets_sorted(value)) == ["b", "a"], "dicts keep their order"
    odd = {Unequal()}
    assert codec.with_sets_sorted(odd) is odd
