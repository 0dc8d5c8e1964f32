"""`headrace asyncapi`: the AsyncAPI document of an app's topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from headrace.cli.app_loader import load_app, one_app
from headrace.cli.output import json_document
from headrace.core.topic.asyncapi import ChannelGroup, ChannelInfo, document
from headrace.errors import ConfigError

if TYPE_CHECKING:
    from headrace import Headrace
    from headrace.client.topic.topic import Topic


@click.command()
@click.argument("app", required=False)
@click.option("-A", "--app", "app_option", metavar="APP", help="App, as module:attribute.")
@click.option("--title", help="Name of the app in the document.  [default: its namespace]")
@click.option("--version", default="1.0.0", show_default=True, help="Version of the app.")
@click.option("--json", is_flag=True, expose_value=False, help="Print JSON: the default.")
def asyncapi(app: str | None, app_option: str | None, title: str | None, version: str) -> None:
    """Print the AsyncAPI 3 document of an app: its topics, their events, and the groups that
    receive them. It is JSON, which tools also take as YAML. It does not use the store, and
    prints no password.
    """
    named = one_app(app, app_option)
    if named is None:
        raise ConfigError("say which app: module:attribute, for example shop:app")
    loaded = load_app(named)
    json_document(
        document(
            channels(loaded),
            title=title or loaded.namespace,
            version=version,
            url=loaded.url,
            namespace=loaded.namespace,
        )
    )


def channels(app: Headrace) -> list[ChannelInfo]:
    """The app's topics, in the order in which they are declared."""
    return [
        ChannelInfo(
            topic.options,
            topic.schema,
            topic.make_key is not None,
            _groups(topic),
            topic.require_key,
        )
        for topic in app.topics.values()
    ]


def _groups(topic: Topic[Any]) -> tuple[ChannelGroup, ...]:
    receivers = (*topic.subscriptions.values(), *topic.broadcasts.values())
    return tuple(
        ChannelGroup(each.wants, each.declared, _summary(each.__doc__)) for each in receivers
    )


def _summary(text: str | None) -> str:
    """The first paragraph of a docstring."""
    return " ".join((text or "").strip().partition("\n\n")[0].split())
