"""No URL shows its secrets, however it is written."""

from __future__ import annotations

import traceback
from pathlib import Path

import pytest
from click.testing import CliRunner

from headrace import ConfigError, Headrace, HeadraceError
from headrace.cli import main
from headrace.core.address import check_url, masked, split_url, without_password
from headrace.outbox.sql.open_database import open_database

SECRET = "S3CR3T"

# Each with the secret where a hurried hand, or a password with odd characters, may put it.
HIDING = [
    "redis://:S3CR3T@host/0",
    "redis://ann:S3CR3T@host:6379/0",
    "redis://S3CR3T@host/0",
    "redis://ann:a#S3CR3T@host:6379/0",
    "redis://ann:S3CR3T#a@host:6379/0",
    "redis://ann:a?S3CR3T@host:6379/0",
    "redis://ann:S3CR3T?a@host:6379/0",
    "redis://ann:a?b=S3CR3T@host:6379/0",
    "redis://ann:12?S3CR3T=b@host:6379/0",
    "redis://ann:a/S3CR3T@host:6379/0",
    "redis://ann:12/S3CR3T@host:6379/0",
    "redis://ann:S3CR3T/a@host:6379/0",
    "redis://ann:a@S3CR3T@host:6379/0",
    "redis://ann:a[S3CR3T@host:6379/0",
    "redis://ann:S3CR3T%zz@host:6379/0",
    "redis://ann:S3CR3T\uff0f@host:6379/0",
    "redis://host:S3CR3T/0",
    "redis://host:6379:S3CR3T/0",
    "redis://:S3CR3T",
    "redis://host/0#S3CR3T",
    "redis://host/0?password=S3CR3T",
    "redis://host/0?Password=S3CR3T",
    "redis://host/0?PASSWORD=S3CR3T",
    "redis://host/0?passwd=S3CR3T",
    "redis://host/0?pass=S3CR3T&db=0",
    "redis://host/0?token=S3CR3T",
    "redis://host/0?password=a@S3CR3T",
    "redis://host/0?S3CR3T",
    "redis://host/0?ssl_password=S3CR3T",
    "rediss://host/0?ssl_cert_reqs=x&ssl_password=S3CR3T",
    "unix://ann:S3CR3T@/run/redis.sock",
    "unix://ann:a#S3CR3T@/run/redis.sock",
    "unix:///run/redis.sock?password=S3CR3T",
    "redis+cluster://ann:S3CR3T@h1,h2",
    "redis+cluster://ann:a#S3CR3T@h1,h2",
    "redis+cluster://h1:S3CR3T,h2",
    "redis+cluster://h1,ann:S3CR3T@h2/0?x=1",
    "redis+sentinel://ann:S3CR3T@h1,h2/shop/0",
    "redis+sentinel://ann:a?S3CR3T@h1,h2/shop/0",
    "redis+sentinel://h1/shop/0?sentinel_password=S3CR3T",
    "rediss+sentinel://h1/shop/0?Sentinel_Password=S3CR3T",
    "redis:ann:S3CR3T@host",
    "redis:/ann:S3CR3T@host",
    "ann:S3CR3T@host/0",
    ":S3CR3T@host",
    "S3CR3T",
    "sqlite://ann:S3CR3T@host/file.db",
    "http://ann:S3CR3T@host/",
    "postgresql://ann:S3CR3T@host/db",
]


@pytest.mark.parametrize("url", HIDING)
def test_a_url_is_shown_without_its_secret(url: str) -> None:
    assert SECRET not in without_password(url)


@pytest.mark.parametrize("url", HIDING)
def test_no_error_about_a_url_holds_its_secret(url: str) -> None:
    try:
        _ = Headrace(url).store
    except HeadraceError as error:
        # What hangs on it, too: services that gather errors show all.
        chain: BaseException | None = error
        while chain is not None:
            assert SECRET not in "".join(traceback.format_exception_only(chain))
            chain = chain.__cause__ or chain.__context__


@pytest.mark.parametrize("url", HIDING)
@pytest.mark.parametrize("command", [("check",), ("queues", "list"), ("jobs", "list"), ("top",)])
def test_no_command_prints_the_secret_of_a_url(url: str, command: tuple[str, ...]) -> None:
    # What can be read names a host that is not there: that takes time, and is no news.
    try:
        check_url(url)
    except ConfigError:
        ended = CliRunner().invoke(main, [*command, "--url", url])
        assert ended.exit_code != 0
        assert SECRET not in ended.output + ended.stderr


@pytest.mark.parametrize(
    "url",
    [
        "redis://ann:a#b@host/0",
        "redis://ann:a?b@host/0",
        "redis://ann:a/b@host/0",
        "redis+cluster://ann:a#b@h1,h2",
        "redis+sentinel://ann:a?b@h1,h2/shop",
    ],
)
def test_odd_characters_of_a_password_are_to_be_percent_encoded(url: str) -> None:
    with pytest.raises(ConfigError, match=r"write # as %23, \? as %3F, / as %2F"):
        _ = Headrace(url).store


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://host:6379/0", "redis://host:6379/0"),
        ("redis://ann:pw@host:6379/0?db=2", "redis://***@host:6379/0?db=2"),
        ("rediss://[::1]:6380/0?ssl_ca_certs=/ca.pem", "rediss://[::1]:6380/0?ssl_ca_certs=/ca.pem"),
        ("redis+cluster://h1:7000,h2:7001", "redis+cluster://h1:7000,h2:7001"),
        ("redis+sentinel://u:p@h1,h2/shop/0", "redis+sentinel://***@h1,h2/shop/0"),
        ("sqlite:////srv/a@b/jobs.db", "sqlite:////srv/a@b/jobs.db"),
        ("unix:///run/redis.sock?db=1", "unix:///run/redis.sock?db=1"),
        ("memory://", "memory://"),
        ("postgresql+psycopg://u:p@db/shop?sslmode=require", "postgresql+psycopg://***@db/shop?sslmode=require"),
    ],
)  # fmt: skip
def test_what_is_no_secret_is_shown(url: str, shown: str) -> None:
    assert without_password(url) == shown


def test_a_url_that_is_no_text_is_not_repeated() -> None:
    with pytest.raises(ConfigError) as refused:
        Headrace(b"redis://:S3CR3T@host")  # type: ignore[arg-type]
    assert SECRET not in str(refused.value)


def test_pieces_of_a_url_are_masked_in_what_a_driver_says() -> None:
    url = "redis://ann:a#S3CR3T%21x@host:6379/0"
    said = masked("Port could not be cast to integer value as 'a', near S3CR3T!x", url)
    assert said == "Port could not be cast to integer value as '***', near ***"


@pytest.mark.parametrize(
    "url",
    [
        "postgresql+psycopg://ann:a@host:S3CR3T/db",
        "postgresql+psycopg://ann:S3CR3T@host:x/db",
        "postgresql+nothing://ann:S3CR3T@host/db",
        "S3CR3T",
        "nothing://:S3CR3T@host",
        "sqlite:S3CR3T",
    ],
)
def test_the_url_of_an_outbox_is_not_printed(url: str) -> None:
    with pytest.raises(ConfigError) as refused:
        open_database(url)
    assert SECRET not in "".join(traceback.format_exception(refused.value))


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ann:x@127.0.0.1:S3CR3T/db",
        "postgresql://ann:x@127.0.0.1:1/db?password=S3CR3T&bogus=1",
        "postgresql://ann:x/S3CR3T@127.0.0.1:1/db",
        "postgresql://ann:S3CR3T@127.0.0.1:1/db?Password=S3CR3T",
    ],
)
def test_what_the_driver_says_of_an_outbox_is_masked(url: str, tmp_path: Path) -> None:
    ended = CliRunner().invoke(main, ["outbox", "failed", "--database", url])
    assert ended.exit_code != 0
    assert SECRET not in ended.output + ended.stderr + repr(ended.exception)


def test_a_list_of_hosts_may_hold_an_ipv6_address_anywhere() -> None:
    parts = split_url("redis+sentinel://me:secret@h1,[::1]:7001,h3:7000/shop/3?a=b")
    assert parts.netloc == "me:secret@h1,[::1]:7001,h3:7000"
    assert (parts.scheme, parts.path, parts.query) == ("redis+sentinel", "/shop/3", "a=b")
    check_url("redis+cluster://h1:7000,[::1]:7001")
