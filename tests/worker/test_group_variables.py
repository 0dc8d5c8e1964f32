"""Variables for the groups of a worker: which group they are for, and what they change."""

from __future__ import annotations

import logging

import pytest

from headrace import Headrace
from headrace.errors import ConfigError
from headrace.worker.group_variables import GroupCapacity, capacity_by_variable
from headrace.worker.settings import WorkerSettings


@pytest.fixture
def app() -> Headrace:
    app = Headrace("memory://")
    orders = app.topic("orders", dict)

    @orders.subscribe("billing", consumers=(1, 2), max_in_flight=5)
    async def bill(event: dict[str, int]) -> None:
        pass

    @orders.subscribe("e-mail")
    async def mail(event: dict[str, int]) -> None:
        pass

    return app


def settings_of(app: Headrace, monkeypatch: pytest.MonkeyPatch, **said: str) -> WorkerSettings:
    for name, text in said.items():
        monkeypatch.setenv(f"HEADRACE_GROUP_{name}", text)
    return app.worker(concurrency=100).settings


def test_a_variable_counts_before_the_options_of_the_subscription(
    app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_of(
        app, monkeypatch, BILLING_CONSUMERS="2..8", E_MAIL_CONSUMERS="3", E_MAIL_MAX_IN_FLIGHT="7"
    )
    billing, mail = settings.subscriptions
    assert (settings.scale_of(billing), settings.slots_of(billing)) == ((2, 8), 5)
    assert (settings.scale_of(mail), settings.slots_of(mail)) == ((3, 3), 7)


def test_without_variables_the_options_count(
    app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_of(app, monkeypatch, BILLING_CONSUMERS=" ")
    billing, mail = settings.subscriptions
    assert (settings.scale_of(billing), settings.slots_of(billing)) == ((1, 2), 5)
    assert (settings.scale_of(mail), settings.slots_of(mail)) == ((1, 1), 100)


@pytest.mark.parametrize(
    ("variable", "text", "said"),
    [
        ("CONSUMERS", "many", "is not a number, or two such as 2..8"),
        ("CONSUMERS", "8..2", "is not a number, or two such as 2..8"),
        ("CONSUMERS", "0", "is not a number, or two such as 2..8"),
        ("MAX_IN_FLIGHT", "few", "is not a number"),
        ("MAX_IN_FLIGHT", "0", "is not a number, from 1 on"),
        ("PREFETCH", "3", "is no setting of a group"),
    ],
)
def test_what_cannot_be_read_is_refused_by_name(variable: str, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=f"HEADRACE_GROUP_BILLING_{variable}.*{said}"):
        capacity_by_variable(["billing"], {f"HEADRACE_GROUP_BILLING_{variable}": text})


def test_a_group_may_have_a_name_like_an_option() -> None:
    variables = {"HEADRACE_GROUP_MAX_IN_FLIGHT_CONSUMERS": "2"}
    found = capacity_by_variable(["max-in-flight"], variables)
    assert found == {"max-in-flight": GroupCapacity((2, 2))}


async def test_a_variable_for_a_group_that_the_app_lacks_is_a_warning(
    app: Headrace, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("HEADRACE_GROUP_BILING_CONSUMERS", "2")
    async with app.worker():
        pass
    warned = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
    assert warned == [
        "this app has no group for the variable HEADRACE_GROUP_BILING_CONSUMERS: "
        "did you mean 'BILLING'?"
    ]


async def test_a_pattern_has_a_group_before_it_has_topics(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    app = Headrace("memory://")

    @app.subscribe("orders.*", "billing")
    async def bill(data: bytes) -> None:
        pass

    monkeypatch.setenv("HEADRACE_GROUP_BILLING_MAX_IN_FLIGHT", "2")
    async with app.worker():
        pass
    assert "has no group" not in caplog.text
