"""The AsyncAPI document of topics is one, by the official schema, and says what is so."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote

import jsonschema
import msgspec
import pydantic
import pytest
from referencing import Registry
from referencing.jsonschema import DRAFT7

from headrace.core.job.retry import Retry
from headrace.core.task.options import TaskOptions
from headrace.core.topic.asyncapi import ChannelGroup, ChannelInfo, document
from headrace.core.topic.schema import Schema
from headrace.core.topic.subscription import SubscriptionOptions
from headrace.core.topic.topic import TopicOptions
from tests.core.messages import Paid
from tests.core.payload.test_content import Csv

SPEC = Path(__file__).parent / "asyncapi_spec" / "3.0.0.json"


@cache
def validator() -> jsonschema.Draft7Validator:
    spec = json.loads(SPEC.read_text())
    # Looked through for parts with names once, rather than for each reference to one.
    known = Registry().with_resource(spec["$id"], DRAFT7.create_resource(spec)).crawl()
    return jsonschema.Draft7Validator(spec, registry=known)


def assert_valid(made: Any) -> None:
    """The document is valid, and everything that it refers to is in it."""
    made = json.loads(msgspec.json.encode(made))
    problems = [f"{error.json_path}: {error.message}" for error in validator().iter_errors(made)]
    assert not problems
    for reference in references(made):
        assert resolved(made, reference) is not None


def references(value: Any) -> list[str]:
    if isinstance(value, list):
        return [found for part in value for found in references(part)]
    if not isinstance(value, dict):
        return []
    own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
    return own + [found for part in value.values() for found in references(part)]


def resolved(made: Any, reference: str) -> Any:
    assert reference.startswith("#/")
    for part in unquote(reference[2:]).split("/"):
        made = made[part.replace("~1", "/").replace("~0", "~")]
    return made


class Parcel(msgspec.Struct, tag=True):
    grams: int


class Letter(msgspec.Struct, tag="letter"):
    size: tuple[int, str]


@dataclass
class Node:
    name: str
    children: list[Node]


class Address(pydantic.BaseModel):
    city: str
    neighbour: Address | None = None


class Customer(pydantic.BaseModel):
    name: str = pydantic.Field(alias="customerName")
    address: Address
    size: tuple[int, str] = (1, "m")


@dataclass
class OrderPaid:
    """Somebody paid."""

    order_id: str
    price: Decimal
    at: datetime
    sent_as: Parcel | Letter
    label: bytes = b""
    tree: Node | None = None
    customer: Customer | None = None
    place: PurePosixPath | None = None
    discriminator: str = "a field, not a word of JSON Schema"
    counts: dict[int, float] | None = None


@dataclass
class Undescribed:
    place: PurePosixPath = PurePosixPath(".")  # noqa: RUF009


def other_paid() -> type:
    @dataclass
    class OrderPaid:
        cents: int

    return OrderPaid


def channel(name: str, kind: Any, codec: Any = "msgpack", **options: Any) -> ChannelInfo:
    schema = Schema.of(name, kind, codec)
    return ChannelInfo(TopicOptions(name, **options), schema)


def group(name: str, *, retry: Retry | None = None, **wants: Any) -> ChannelGroup:
    declared = TaskOptions(f"orders/{name}", "loop", f"{name}@orders", retry or Retry())
    return ChannelGroup(SubscriptionOptions(name, **wants), declared)


def made(*channels: ChannelInfo, url: str = "memory://") -> Any:
    return document(channels, title="shop", version="2.1.0", url=url, namespace="headrace")


TOPICS = [
    channel("orders", OrderPaid),
    channel("orders.json", OrderPaid, "json"),
    channel("customers", Customer, "json"),
    channel("addresses", list[Address]),
    channel("trees", Node),
    channel("others", other_paid()),
    channel("places", Undescribed),
    channel("blobs", bytes, "raw"),
    channel("wrapped", bytes),
    channel("payments", Paid, "protobuf"),
    channel("rows", list[str], Csv()),
    channel("matrices", complex, Csv()),
    channel("anything", Any),
    channel("nothing", None),
    channel("odd/~name%$", int | str),
]


def test_the_official_schema_is_one_and_refuses_what_is_no_document() -> None:
    jsonschema.Draft7Validator.check_schema(json.loads(SPEC.read_text()))
    assert not validator().is_valid({"asyncapi": "3.0.0"})
    wrong = made(TOPICS[0])
    wrong["operations"]["publish_orders"]["action"] = "shout"
    assert not validator().is_valid(wrong)


@pytest.mark.parametrize("topic", TOPICS, ids=lambda topic: topic.name)
def test_the_document_of_a_topic_is_valid(topic: ChannelInfo) -> None:
    assert_valid(made(topic))


def test_the_document_of_all_topics_is_valid() -> None:
    assert_valid(made(*TOPICS))


def test_the_document_of_an_app_without_topics_is_valid() -> None:
    assert_valid(made())


def test_a_channel_says_what_its_events_are() -> None:
    found = made(channel("orders", OrderPaid, "json"))
    orders = found["channels"]["orders"]
    message = orders["messages"]["OrderPaid"]
    assert orders["address"] == "orders"
    assert message["contentType"] == "application/json"
    payload = resolved(found, message["payload"]["$ref"])
    assert payload["description"] == "Somebody paid."
    assert payload["required"] == ["order_id", "price", "at", "sent_as"]
    assert "discriminator" in payload["properties"]
    trait = resolved(found, message["traits"][0]["$ref"])
    name = trait["correlationId"]["location"].removeprefix("$message.header#/")
    assert name in trait["headers"]["properties"]


def example() -> OrderPaid:
    return OrderPaid(
        "o-1",
        Decimal("9.95"),
        datetime(2026, 1, 2),
        Letter((1, "x")),
        tree=Node("a", [Node("b", [])]),
        customer=Customer(customerName="Ada", address=Address(city="Ulm")),
    )


@pytest.mark.parametrize(
    ("kind", "event"),
    [
        (OrderPaid, example()),
        (Customer, example().customer),
        (list[Address], [Address(city="Ulm", neighbour=Address(city="Neu-Ulm"))]),
        (Letter | Parcel, Parcel(5)),
        (bytes, b"\xff"),
        (dict[int, float], {1: 0.5}),
    ],
)
def test_the_schema_of_a_payload_fits_what_is_published(kind: Any, event: Any) -> None:
    topic = channel("orders", kind, "json")
    found = made(topic)
    (message,) = found["channels"]["orders"]["messages"].values()
    schema = {**message["payload"], "components": found["components"]}
    if "$ref" in schema:
        # What stands beside a reference does not count in draft 7, so the reference goes below it.
        schema = {"allOf": [message["payload"]], "components": found["components"]}
    checks = jsonschema.Draft7Validator(schema)
    published = json.loads(topic.schema.encode(event))
    checks.validate(published)
    assert not checks.is_valid(True)


def test_a_type_that_cannot_be_described_says_why() -> None:
    message = made(channel("places", Undescribed))["channels"]["places"]["messages"]["Undescribed"]
    assert "Undescribed cannot be described: " in message["payload"]["$comment"]


def test_types_of_the_same_name_are_told_apart() -> None:
    found = made(channel("orders", OrderPaid), channel("others", other_paid()))
    first, second = (
        found["channels"][name]["messages"]["OrderPaid"]["payload"] for name in ("orders", "others")
    )
    assert "order_id" in resolved(found, first["$ref"])["properties"]
    assert "cents" in resolved(found, second["$ref"])["properties"]


def test_a_protobuf_message_is_named_and_not_described() -> None:
    message = made(channel("payments", Paid, "protobuf"))["channels"]["payments"]["messages"][
        "Paid"
    ]
    assert message["contentType"] == "application/x-protobuf"
    assert message["x-headrace"]["protobuf"] == "shop.Paid"
    assert "payload" not in message


def test_a_topic_says_how_it_is_kept() -> None:
    kept = channel(
        "orders", OrderPaid, shards=4, retention=timedelta(days=7), max_length=100, overflow="block"
    )
    found = made(kept)
    assert_valid(found)
    assert found["channels"]["orders"]["x-headrace"] == {
        "shards": 4,
        "retention": 604_800.0,
        "max_length": 100,
        "overflow": "block",
        "keyed": False,
    }


def test_each_group_is_an_operation_that_says_how_it_receives() -> None:
    orders = channel("orders", OrderPaid)
    groups = (
        group("billing", retry=Retry(5, on=(ConnectionError,)), max_in_flight=64),
        group("ledger", ordered=True, on_failure="fail_key", consumers=(1, 8)),
        group("audit", ack="receive", begin="start"),
        group("cache", broadcast=True),
    )
    found = made(ChannelInfo(orders.declared, orders.schema, True, groups))
    assert_valid(found)
    operations = found["operations"]
    assert operations["publish_orders"]["action"] == "send"
    for name in ("billing", "ledger", "audit", "cache"):
        operation = operations[f"receive_orders_{name}"]
        assert operation["action"] == "receive"
        assert operation["channel"] == {"$ref": "#/channels/orders"}
    extensions = {name: operation.get("x-headrace") for name, operation in operations.items()}
    assert extensions["receive_orders_billing"]["retry"]["on"] == ["ConnectionError"]
    assert extensions["receive_orders_billing"]["max_in_flight"] == 64
    assert extensions["receive_orders_ledger"]["on_failure"] == "fail_key"
    assert extensions["receive_orders_ledger"]["consumers"] == (1, 8)
    assert extensions["receive_orders_audit"]["ack"] == "receive"
    assert "retry" not in extensions["receive_orders_audit"]
    assert extensions["receive_orders_cache"]["broadcast"] is True


def test_operations_of_alike_names_are_all_there() -> None:
    one, other = channel("a/b", int), channel("a_b", int)
    found = made(one, other)
    assert_valid(found)
    places = {operation["channel"]["$ref"] for operation in found["operations"].values()}
    assert places == {"#/channels/a~1b", "#/channels/a_b"}


@pytest.mark.parametrize(
    ("url", "hosts", "protocol", "path"),
    [
        ("redis://user:s3cret@db.example:6380/2", ["db.example:6380"], "redis", "/2"),
        ("rediss://:s3cret@db.example", ["db.example"], "rediss", None),
        ("redis://db.example?password=s3cret", ["db.example"], "redis", None),
        ("redis+cluster://u:s3cret@a:1,b:2", ["a:1", "b:2"], "redis", None),
        ("redis+sentinel://:s3cret@a,b/main/0", ["a", "b"], "redis", "/main/0"),
        ("unix:///run/redis.sock?password=s3cret", ["localhost"], "redis", "/run/redis.sock"),
        ("sqlite:///jobs.db", ["localhost"], "sqlite", "/jobs.db"),
        ("sqlite:////var/{x}.db", ["localhost"], "sqlite", "//var/%7Bx%7D.db"),
        ("memory://", ["localhost"], "memory", None),
    ],
)
def test_servers_are_those_of_the_store_without_its_password(
    url: str, hosts: list[str], protocol: str, path: str | None
) -> None:
    found = made(url=url)
    assert_valid(found)
    servers = found["servers"].values()
    assert [server["host"] for server in servers] == hosts
    assert {server["protocol"] for server in servers} == {protocol}
    assert {server.get("pathname") for server in servers} == {path}
    assert "s3cret" not in str(found)
