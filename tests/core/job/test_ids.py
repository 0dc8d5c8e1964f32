"""Job ids: what people see, what stores keep, and the way between them."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.core.job import ids
from headrace.errors import ConfigError


def uuid7(number: int) -> str:
    version = number & ~(0xF << 76) | 0x7 << 76
    return str(uuid.UUID(int=version & ~(0x3 << 62) | 0x2 << 62))


uuid4_texts = st.uuids(version=4).map(str)
uuid7_texts = st.integers(0, 2**128 - 1).map(uuid7)
odd_uuid_texts = uuid7_texts.map(str.upper) | uuid7_texts.map(lambda text: text.replace("-", "", 1))
printable = st.text(min_size=1, max_size=64).filter(str.isprintable)
long_as_uuids = st.text("0123456789abcdef-", min_size=36, max_size=36)
any_id = st.one_of(printable, uuid4_texts, uuid7_texts, odd_uuid_texts, long_as_uuids)


@given(any_id)
@example("=")
@example("=" * 16)
@example("x" * 256)
@example("ü" * 128)
@example("3d000000-0000-7000-8000-000000000000")
@example("3dffffff-ffff-7fff-bfff-ffffffffffff")
def test_every_id_comes_back_from_its_key(text: str) -> None:
    assert ids.to_text(ids.to_id(text)) == text


@given(any_id, any_id)
def test_different_ids_have_different_keys(one: str, other: str) -> None:
    assert (ids.to_id(one) == ids.to_id(other)) is (one == other)


@given(uuid7_texts.filter(lambda text: not text.startswith("3d")))
def test_a_uuid7_takes_sixteen_bytes(text: str) -> None:
    assert ids.to_id(text) == uuid.UUID(text).bytes


@given(uuid7_texts.filter(lambda text: not text.startswith("3d")))
def test_a_uuid7_that_is_spelled_otherwise_is_another_id(text: str) -> None:
    spelled = text.upper()
    if spelled != text:
        assert ids.to_id(spelled) != ids.to_id(text)


@given(st.integers(0, 2**128 - 1))
def test_every_sixteen_bytes_that_are_no_text_come_back_from_their_text(number: int) -> None:
    key = uuid.UUID(uuid7(number)).bytes
    if key[0] != ord("="):
        assert ids.to_id(ids.to_text(key)) == key


def test_new_ids_are_unique() -> None:
    assert len({ids.new_id() for _ in range(20_000)}) == 20_000


def test_a_new_id_is_a_uuid7() -> None:
    made = uuid.UUID(ids.to_text(ids.new_id()))
    assert made.version == 7
    assert made.variant == uuid.RFC_4122


@given(times=st.lists(st.integers(0, 2**40), min_size=2, max_size=20, unique=True))
def test_new_ids_sort_by_time(times: list[int]) -> None:
    # In steps of a microsecond: the id holds a quarter of one.
    start, moments = 1_700_000_000_000_000_000, iter(sorted(times))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headrace.core.job.ids.time.time_ns", lambda: start + next(moments) * 1000)
        job_ids = [ids.new_id() for _ in times]
    assert job_ids == sorted(job_ids)
    assert [ids.to_text(job_id) for job_id in job_ids] == sorted(
        ids.to_text(job_id) for job_id in job_ids
    )


def changed_bucket() -> None:
    """Begin a bucket, whatever other tests have made."""
    before = ids.bucket_of(ids.new_id())
    while ids.bucket_of(ids.new_id()) == before:
        pass


@pytest.mark.parametrize("make", [ids.new_id, ids.new_ids().__next__], ids=["one", "many"])
def test_ids_made_one_after_the_other_share_buckets(make: Callable[[], bytes]) -> None:
    changed_bucket()
    made = Counter(ids.bucket_of(make()) for _ in range(10 * ids.BUCKET_SIZE - 1))
    assert len(made) == 10
    assert set(made.values()) <= {ids.BUCKET_SIZE, ids.BUCKET_SIZE - 1}


def test_ids_of_one_bucket_differ_in_the_rest() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headrace.core.job.ids.time.time_ns", lambda: 1_700_000_000_000_000_000)
        assert len({ids.new_id() for _ in range(2_000)}) == 2_000


def test_ids_that_callers_choose_have_no_bucket() -> None:
    assert [ids.bucket_of(ids.to_id(text)) for text in ("order-17", "=" * 15)] == [None, None]


def test_threads_overfill_a_bucket_by_little() -> None:
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: ids.bucket_of(ids.new_id()), range(40_000)))
    assert max(Counter(made).values()) <= 2 * ids.BUCKET_SIZE


_FORKS = """
import os
import headrace
from headrace.core.job import ids
mine = ids.bucket_of(ids.new_id())
child = os.fork()
made = ids.bucket_of(ids.new_id())
if child:
    os.waitpid(child, 0)
os.write(1, b"%d\\n" % (made == mine))
os._exit(0)
"""


def test_a_fork_fills_a_bucket_of_its_own() -> None:
    # In a process of its own, which has no threads.
    child, parent = subprocess.check_output([sys.executable, "-c", _FORKS]).split()
    assert (child, parent) == (b"0", b"1")


# Up to the year 4095, in which keys would begin like those of ids that callers chose.
@given(st.integers(0, 67 * 10**18))
def test_an_id_says_when_it_was_made(time_ns: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headrace.core.job.ids.time.time_ns", lambda: time_ns)
        assert ids.created_ms(ids.new_id()) == time_ns // 1_000_000


@pytest.mark.parametrize("text", ["order-17", "=" * 15, str(uuid.UUID(int=0))])
def test_an_id_that_a_caller_chose_does_not_say_when_it_was_made(text: str) -> None:
    assert ids.created_ms(ids.to_id(text)) is None


@pytest.mark.parametrize(
    "text",
    ["", "x" * 257, "ü" * 129, "a\nb", "a\x00b", "tab\t", "\ud800", "\u200e", "x" * 10_000],
    ids=ascii,
)
def test_what_cannot_be_an_id_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="job id"):
        ids.to_id(text)


@pytest.mark.parametrize("value", [5, None, b"order-17", uuid.UUID(int=7)])
def test_an_id_that_is_not_text_is_refused(value: object) -> None:
    with pytest.raises(ConfigError, match="job id"):
        ids.to_id(value)  # type: ignore[arg-type]


@given(st.binary(max_size=40))
def test_whatever_is_found_as_a_key_can_be_shown(key: bytes) -> None:
    assert isinstance(ids.to_text(key), str)
    assert ids.created_ms(key) is None or len(key) == 16
