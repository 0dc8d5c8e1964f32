"""What topics and subscriptions declare, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headrace import ConfigError, Retry
from headrace.core.topic.subscription import SubscriptionOptions, check_patience, check_subscription
from headrace.core.topic.topic import (
    TopicKwargs,
    TopicOptions,
    check_known,
    check_place,
    checked_key,
)

NOW = datetime(2026, 7, 1, tzinfo=UTC)
NOW_MS = int(NOW.timestamp() * 1000)


def test_a_topic_keeps_events_for_a_day_and_waits_a_week_for_groups() -> None:
    options = TopicOptions("orders")
    assert options.retention_ms == 86_400_000
    assert options.gone_after_ms == 7 * 86_400_000
    assert options.most_per_shard is None


def test_the_shards_share_the_length_of_their_topic() -> None:
    assert TopicOptions("orders", shards=3, max_length=100).most_per_shard == 33


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"name": "a@b"}, "'@'"),
        ({"name": ""}, "topic name"),
        ({"shards": 0}, "shards"),
        ({"shards": 5000}, "up to 1024"),
        ({"retention": -1}, "retention"),
        ({"retention": "a day"}, "retention"),
        ({"group_gone_after": 0}, "group_gone_after must be at least 60 seconds"),
        ({"group_gone_after": timedelta(seconds=59)}, "events of a group that is served could go"),
        ({"group_gone_after": "a week"}, "group_gone_after"),
        ({"max_length": 0}, "max_length"),
        ({"max_length": 2, "shards": 3}, "at least"),
        ({"overflow": "block"}, "needs max_length="),
        ({"overflow": "drop_oldest"}, "needs max_length="),
        ({"max_length": 5, "overflow": "drop_some"}, "'drop_oldest'"),
        ({"source": ""}, "source"),
        ({"max_payload": 0}, "max_payload"),
    ],
)
def test_a_topic_refuses(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        TopicOptions(**{"name": "orders", **options})


def check(
    batch: int | None = None, retry: Retry | None = None, keyed: bool = True, **wants: Any
) -> SubscriptionOptions:
    made = SubscriptionOptions("billing", **wants)
    where = "group 'billing': "
    check_subscription(where, made, keyed=keyed, batch=batch, retry=retry, now_ms=NOW_MS)
    return made


@pytest.mark.parametrize(
    ("wants", "said"),
    [
        ({"ack": "later"}, "'success', 'receive' or 'manual'"),
        ({"ordered": True, "keyed": False}, r"key=lambda .* publish\(key=…\) alone is not enough"),
        ({"ordered": "yes"}, "True or False"),
        ({"on_failure": "skip"}, "ordered=True"),
        ({"ordered": True, "on_failure": "stop"}, "'fail_key'"),
        ({"ack": "manual", "batch": 5}, "BatchError"),
        ({"ack": "receive", "batch": 5}, "BatchError"),
        ({"ack": "receive", "retry": Retry(2)}, "never retried"),
        ({"ack": "receive", "ordered": True}, "'success' or 'manual'"),
        ({"max_in_flight": 0}, "max_in_flight"),
        ({"max_in_flight": 4, "batch": 5}, "less than batch"),
        ({"consumers": 0}, "consumers"),
        ({"consumers": (3, 2)}, "more than the most"),
        ({"consumers": (1, 2, 3)}, r"\(least, most\)"),
        ({"consumers": "many"}, r"\(least, most\)"),
        ({"begin": ""}, "event's id"),
        ({"begin": 5}, "begin"),
        ({"begin": datetime(2030, 1, 1)}, "time zone"),
    ],
)
def test_a_subscription_refuses(wants: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        check(**wants)


def test_what_goes_together_is_taken() -> None:
    check(ordered=True, on_failure="fail_key", ack="manual", retry=Retry(5))
    check(batch=500, max_in_flight=500, consumers=(1, 4), begin="start")
    check(ack="receive", begin=NOW - timedelta(days=1), consumers=3)


def test_a_group_is_waited_for_longer_than_it_may_be_busy() -> None:
    check_patience("billing: ", 59.0, 60_000)
    check_patience("billing: ", None, 60_000)
    with pytest.raises(ConfigError, match=r"billing: timeout=300 .*would count as gone"):
        check_patience("billing: ", 300.0, 60_000)


def test_an_ordered_group_stops_a_key_unless_it_says_otherwise() -> None:
    assert check(ordered=True).failing == "block"
    assert check(ordered=True, on_failure="skip").failing == "skip"
    assert check().failing == "skip"


def test_a_number_of_consumers_is_the_least_and_the_most() -> None:
    assert check(consumers=3).scale == (3, 3)
    assert check(consumers=(1, 4)).scale == (1, 4)
    assert check().scale is None


@pytest.mark.parametrize(
    "place", ["new", "start", "order-5", NOW - timedelta(days=900), NOW + timedelta(seconds=60)]
)
def test_a_place_is_a_word_an_id_or_a_time(place: Any) -> None:
    assert check_place("to", place, NOW_MS) == place


def test_a_time_that_has_not_come_is_no_place() -> None:
    with pytest.raises(ConfigError, match="to is a time in the future, 2026-07-01T00:01:01"):
        check_place("to", NOW + timedelta(seconds=61), NOW_MS)


def test_a_group_may_wait_for_a_minute_only() -> None:
    assert TopicOptions("orders", group_gone_after=60).gone_after_ms == 60_000


def test_options_that_a_topic_has_are_known() -> None:
    check_known("topic 'orders': it", {"shards": 3, "codec": "json"}, TopicKwargs, {})


def test_an_option_that_there_is_not_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(ConfigError, match=r"'orders': it has no 'colour': it takes .*retention, "):
        check_known("topic 'orders': it", {"shards": 3, "colour": 1}, TopicKwargs, {})


def test_an_option_of_something_else_is_refused_with_a_hint() -> None:
    hints = {"batch": "a subscription has it"}
    with pytest.raises(ConfigError, match=r"^it has no 'batch': a subscription has it$"):
        check_known("it", {"batch": 5, "zone": "UTC"}, TopicKwargs, hints)


def test_a_key_is_made_by_a_function_or_there_is_none() -> None:
    def order_id(event: dict[str, str]) -> str:
        return event["order_id"]

    assert checked_key("topic 'orders': ", order_id) is order_id
    assert checked_key("topic 'orders': ", None) is None


@pytest.mark.parametrize("key", ["order_id", 5, ("a", "b")])
def test_a_key_that_is_no_function_is_refused(key: object) -> None:
    with pytest.raises(ConfigError, match="topic 'orders': key must be a function of the event"):
        checked_key("topic 'orders': ", key)
