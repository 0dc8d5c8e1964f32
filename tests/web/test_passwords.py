"""Those who guess passwords, and those who know theirs meanwhile."""

from __future__ import annotations

import asyncio

import httpx2 as httpx
import pytest

from headrace import Headrace
from headrace.web.auth.throttle import OF_NAME, OF_PAIR, Throttle, network_of
from headrace.web.auth.users import Passwords, User
from tests.web.browsing import Person


@pytest.fixture
def store_url() -> str:
    return "memory://"


@pytest.fixture
def users() -> Passwords:
    return Passwords(["ann:s3cret42", "bob:pa55word:viewer"])


@pytest.fixture
def quick(users: Passwords, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Passwords are looked at without their hashes; those that were."""
    looked: list[str] = []

    def check(_: Passwords, name: str, password: str) -> User | None:
        looked.append(password)
        right = (name, password) in (("ann", "s3cret42"), ("bob", "pa55word"))
        return users.named(name) if right else None

    monkeypatch.setattr(Passwords, "check", check)
    return looked


async def guessed(person: Person, times: int, name: str = "ann") -> list[int]:
    """What someone is answered who tries one password after the other."""
    sent = {"csrf_token": await person.token("/login"), "name": name}
    found = []
    for number in range(times):
        answer = await person.http.post("/login", data={**sent, "password": f"guess-{number}"})
        found.append(answer.status_code)
    return found


async def test_who_guesses_is_soon_not_looked_at(
    app: Headrace, users: Passwords, quick: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    async with Person(app, auth=users, client="192.0.2.66") as thief:
        assert await guessed(thief, 40) == [401] * OF_PAIR.guesses + [429] * 30
        assert len(quick) == OF_PAIR.guesses
        answer = await thief.log_in("ann", "s3cret42")
        assert answer.status_code == 429, "a right one is not told from a wrong one"
        assert 0 < int(answer.headers["retry-after"]) <= OF_PAIR.every
        basic = await thief.http.get("/", auth=("ann", "s3cret42"))
        assert basic.status_code == 429
    assert "'ann' from 192.0.2.66" in caplog.text
    assert "guess-" not in caplog.text


async def test_guesses_that_come_at_once_are_counted_too(
    app: Headrace, users: Passwords, quick: list[str]
) -> None:
    async with Person(app, auth=users) as thief:
        sent = {"csrf_token": await thief.token("/login"), "name": "ann", "password": "guess"}
        tries = (thief.http.post("/login", data=sent) for _ in range(50))
        answers = [answer.status_code for answer in await asyncio.gather(*tries)]
    assert answers.count(401) == OF_PAIR.guesses


async def test_while_someone_guesses_from_many_places_those_who_know_theirs_come_in(
    app: Headrace, users: Passwords, quick: list[str]
) -> None:
    """All places at which passwords are checked are taken, too, by ones that take for ever."""
    async with Person(app, auth=users, client="192.0.2.1") as ann:
        await ann.log_in("ann", "s3cret42")
        await ann.http.post("/logout", data={"csrf_token": await ann.token()})
        site = ann.site
        for number in range(OF_NAME.guesses // OF_PAIR.guesses + 1):
            async with Person(site, client=f"198.51.100.{number}") as thief:
                await guessed(thief, OF_PAIR.guesses + 1)
        async with Person(site, client="203.0.113.9") as stranger:
            assert (await stranger.log_in("ann", "s3cret42")).status_code == 429
            assert (await stranger.log_in("bob", "pa55word")).status_code == 303
        (line,) = [
            line for known, line in site.state.dashboard.access._check_queues.items() if not known
        ]
        line._waiting = 1_000
        for _ in range(10):
            assert (await ann.log_in("ann", "s3cret42")).status_code == 303
            await ann.http.post("/logout", data={"csrf_token": await ann.token()})


async def test_a_browser_that_was_here_is_known_for_its_own_name_alone(
    app: Headrace, users: Passwords, quick: list[str]
) -> None:
    async with Person(app, auth=users) as bob:
        await bob.log_in("bob", "pa55word")
        (device,) = (name for name in bob.http.cookies if "device" in name)
        await bob.http.post("/logout", data={"csrf_token": await bob.token()})
        assert device in bob.http.cookies
        assert await guessed(bob, OF_PAIR.guesses + 1, "ann") == [401] * OF_PAIR.guesses + [429]
        assert await guessed(bob, OF_PAIR.guesses + 1, "bob") == [401] * OF_PAIR.guesses + [429]
        bob.http.cookies.delete(device)
        bob.http.cookies.set(device, "forged")
        assert (await bob.log_in("bob", "pa55word")).status_code == 303, "as a stranger"


async def test_who_tries_many_names_from_one_address_is_stopped(
    app: Headrace, users: Passwords, quick: list[str]
) -> None:
    async with Person(app, auth=users, client="192.0.2.66") as thief:
        answers = []
        for number in range(60):
            answers += await guessed(thief, 1, f"name-{number}")
        assert answers == [401] * 50 + [429] * 10
    async with Person(thief.site, client="192.0.2.67") as other:
        assert (await other.log_in("ann", "s3cret42")).status_code == 303


async def test_a_program_that_was_right_goes_on_while_others_guess(
    app: Headrace, users: Passwords, quick: list[str]
) -> None:
    async with Person(app, auth=users, headers={"accept": "*/*"}) as program:
        right = httpx.BasicAuth("ann", "s3cret42")
        assert (await program.http.get("/queues", auth=right)).status_code == 200
        for _ in range(2 * OF_PAIR.guesses):
            wrong = await program.http.get("/queues", auth=("ann", "wrong"))
        assert wrong.status_code == 429
        assert (await program.http.get("/queues", auth=right)).status_code == 200


def test_an_allowance_comes_back_with_time() -> None:
    now = 0.0
    throttle = Throttle(lambda name: True, lambda: now)
    waits = [throttle.guess("ann", "192.0.2.1", None).wait for _ in range(12)]
    assert waits == [0.0] * 10 + [OF_PAIR.every] * 2
    now = OF_PAIR.every * 2
    waits = [throttle.guess("ann", "192.0.2.1", None).wait for _ in range(3)]
    assert waits == [0.0, 0.0, OF_PAIR.every]


def test_right_passwords_cost_nothing() -> None:
    throttle = Throttle(lambda name: True, lambda: 0.0)
    for _ in range(1_000):
        guess = throttle.guess("ann", "192.0.2.1", None)
        assert not guess.wait
        guess.was_right()


def test_what_is_remembered_of_those_who_guess_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.web.auth.throttle._MOST_KEPT", 100)
    throttle = Throttle(lambda name: False, lambda: 0.0)
    for number in range(1_000):
        throttle.guess(f"name-{number}", f"198.51.{number // 256}.{number % 256}", None)
    assert len(throttle._buckets) == 100


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("192.0.2.1", "::ffff:192.0.2.1", True),
        ("192.0.2.1", "192.0.2.2", False),
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("fe80::1%eth0", "fe80::1", True),
        ("", "testclient", False),
    ],
)
def test_a_household_is_one_guesser(one: str, other: str, same: bool) -> None:
    assert (network_of(one) == network_of(other)) is same
