"""Names of logs and of groups' queues, and where the events of a key go."""

from __future__ import annotations

import pytest

from headrace import ConfigError
from headrace.core.queue_names import (
    GroupSource,
    check_queue,
    check_topic,
    group_queue,
    group_source,
    is_log,
    log_name,
    shard_of,
)


def test_the_first_shard_keeps_its_name_however_many_there_are() -> None:
    assert [log_name("orders", shard) for shard in range(3)] == [
        "@orders",
        "@orders#1",
        "@orders#2",
    ]
    assert group_queue("orders", "billing") == "billing@orders"
    assert group_queue("orders", "billing", 2) == "billing@orders#2"


@pytest.mark.parametrize("shard", [0, 1, 17])
def test_the_parts_of_a_groups_queue_are_found_again(shard: int) -> None:
    found = group_source(group_queue("orders", "billing", shard))
    assert found == GroupSource("billing", "orders", shard)
    assert found.log == log_name("orders", shard)


@pytest.mark.parametrize("queue", ["mail", "@orders", "@orders#1"])
def test_other_queues_belong_to_no_group(queue: str) -> None:
    assert group_source(queue) is None


def test_a_log_is_known_by_its_first_character() -> None:
    assert [is_log(name) for name in ("@orders", "billing@orders", "mail")] == [True, False, False]


# Kept as they are for ever: another answer would tear the events of a key apart.
@pytest.mark.parametrize(
    ("key", "shard"), [("o-1", 5), ("customer-7", 5), ("Zürich", 5), ("", 0), ("鍵", 3)]
)
def test_a_key_is_always_of_the_same_shard(key: str, shard: int) -> None:
    assert shard_of(key, 7) == shard


def test_the_shard_is_the_crc_32_of_the_key() -> None:
    # The check value by which any implementation of CRC-32 is known.
    assert shard_of("123456789", 1000) == 0xCBF43926 % 1000


def test_keys_are_spread_evenly() -> None:
    counts = [0] * 8
    for number in range(8000):
        counts[shard_of(f"customer-{number}", 8)] += 1
    assert min(counts) > 850
    assert max(counts) < 1150


def test_one_shard_takes_all() -> None:
    assert {shard_of(str(number), 1) for number in range(10)} == {0}


@pytest.mark.parametrize("name", ["bill@orders", "@orders", "", "two words", None])
def test_a_queue_cannot_be_named_like_a_topic(name: object) -> None:
    with pytest.raises(ConfigError):
        check_queue("queue", name)


@pytest.mark.parametrize("name", ["@orders", "orders#1", "a@b", "", "two words", 5])
def test_a_topic_cannot_be_named_like_a_log(name: object) -> None:
    with pytest.raises(ConfigError):
        check_topic("topic name", name)
