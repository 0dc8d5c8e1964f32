"""What a call brings along for its job: tags, headers, what a timeout means, what is certain."""

from __future__ import annotations

import random
from typing import Any

import pytest

from headrace.core.bounds import MAX_OVERRIDES, MAX_TAGS
from headrace.core.confirming import UNCONFIRMED, Confirming
from headrace.core.job.envelope import WireRetry
from headrace.core.job.retry import Retry
from headrace.core.task.send_options import PLAIN, SendOptions, sent_as
from headrace.errors import ConfigError


def changed(**options: Any) -> SendOptions:
    return PLAIN.changed(**options)


def test_a_call_may_wait_until_its_job_is_certain() -> None:
    assert changed().confirm == UNCONFIRMED
    assert changed(confirm="replicated").confirm == Confirming.REPLICATED
    assert changed(confirm="disk").confirm == Confirming.DISK
    assert changed(confirm="disk").changed(confirm=None).confirm == UNCONFIRMED
    assert changed(confirm="disk").changed(priority=5).confirm == Confirming.DISK


@pytest.mark.parametrize("confirm", ["", "memory", True, 1, ["disk"]])
def test_what_cannot_be_confirmed_is_refused(confirm: object) -> None:
    with pytest.raises(ConfigError, match=r"options\(confirm=\) must be 'replicated' or 'disk'"):
        changed(confirm=confirm)


def test_the_key_of_a_batch_is_no_constraint_by_itself() -> None:
    options = changed(batch_key="eu")
    assert options.batch_key == "eu"
    assert not options.constrains
    assert changed(key="eu").constrains


@pytest.mark.parametrize("key", ["", None, 7, "a\nb", "x" * 257])
def test_the_key_of_a_batch_is_a_short_text(key: object) -> None:
    with pytest.raises(ConfigError, match=r"options\(batch_key=\)"):
        changed(batch_key=key)


class AtNight(Retry):
    """A policy with a method of its own."""

    def delay(self, attempt: int, rng: random.Random | None = None) -> float:
        return 3600.0


def test_a_policy_of_ones_own_is_refused_where_it_would_travel_without_its_methods() -> None:
    with pytest.raises(ConfigError) as refused:
        changed(retry=AtNight(5))
    assert str(refused.value) == (
        "options(retry=): only what a Retry(...) is given travels with a call, and AtNight is a "
        "class of its own: put it on the task, with retry=AtNight(...) where it is declared"
    )
    with pytest.raises(ConfigError, match="AtNight is a class of its own"):
        WireRetry.of(AtNight(5))


@pytest.mark.parametrize("meaning", ["retry", "dead", "defer"])
def test_a_call_may_say_what_its_timeout_means(meaning: str) -> None:
    options = changed(on_timeout=meaning)
    assert options.overrides.on_timeout == meaning
    assert options.changed(timeout=5).overrides.on_timeout == meaning
    assert not changed().overrides.on_timeout


@pytest.mark.parametrize("meaning", ["", "give up", None, True])
def test_a_timeout_means_nothing_else(meaning: object) -> None:
    with pytest.raises(ConfigError, match=r"options\(on_timeout=\) must be 'retry', 'dead'"):
        changed(on_timeout=meaning)


def test_tags_keep_their_order_and_are_there_once() -> None:
    assert changed(tags=["b", "a", "b"]).overrides.tags == ("b", "a")
    assert changed(tags=("b",)).overrides.tags == ("b",)
    assert changed(tags={"b"}).overrides.tags == ("b",)


def test_new_tags_take_the_place_of_the_old_ones() -> None:
    options = changed(tags=["a"]).changed(headers={"tenant": "eu"})
    assert options.overrides.tags == ("a",)
    assert options.changed(tags=["b"]).overrides.tags == ("b",)
    assert options.changed(tags=[]).overrides.tags == ()


@pytest.mark.parametrize("tags", ["eu", 5, None, {"eu": "us"}, iter(["eu"])])
def test_tags_are_a_list_and_not_one_text(tags: object) -> None:
    with pytest.raises(ConfigError, match=r"options\(tags=\) must be a list of texts"):
        changed(tags=tags)


@pytest.mark.parametrize("tag", ["", None, 5, "a\nb", "x" * 257, "\ud800"])
def test_a_tag_is_a_short_text(tag: object) -> None:
    with pytest.raises(ConfigError, match=r"options\(tags=\)"):
        changed(tags=["eu", tag])


def test_only_different_tags_are_counted() -> None:
    most = [f"t{number}" for number in range(MAX_TAGS)]
    assert len(changed(tags=most * 2).overrides.tags) == MAX_TAGS
    with pytest.raises(ConfigError, match=f"has {MAX_TAGS + 1} tags, at most {MAX_TAGS}"):
        changed(tags=[*most, "more"])


def test_what_a_call_brings_along_has_a_limit_together() -> None:
    nearly_all = {"tenant": "x" * (MAX_OVERRIDES - 200)}
    options = changed(headers=nearly_all)
    assert options.overrides.headers == nearly_all
    with pytest.raises(ConfigError, match=r"headers, tags and retry take 32,.* at most 32,768"):
        options.changed(tags=["y" * 250])


def test_a_content_type_stays_whatever_else_changes() -> None:
    assert sent_as("") is PLAIN
    options = sent_as("application/json").changed(tags=["a"], on_timeout="dead")
    assert options.overrides.content == "application/json"
