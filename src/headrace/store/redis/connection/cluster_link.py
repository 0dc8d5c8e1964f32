"""Links to the node of a cluster that has the key of a request."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from headrace.errors import StoreUnavailable
from headrace.store.redis.connection.cluster import Cluster, ClusterNode, slot_of
from headrace.store.redis.connection.errors import Moved, NoGroup
from headrace.store.redis.connection.link import Argument, Link
from headrace.store.redis.connection.requests import Abandoned, Numbered

if TYPE_CHECKING:
    from headrace.store.redis.connection.confirmation import Confirmation

_REDIRECTS = 5


class ClusterLink(Link):
    """A link to each node, made when first used; requests to different nodes do not wait for each
    other. For requests about a key: `run` goes by the first, `call` by `key`; one without goes to
    the node that has slot 0, which is the same for everyone."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        repeats: bool,
        abandoned: Abandoned,
        confirmation: Confirmation | None = None,
    ) -> None:
        super().__init__(
            cluster.connect,
            repeats=repeats,
            abandoned=abandoned,
            confirmation=confirmation,
            settings=cluster.link_settings,
        )
        self._cluster = cluster
        self._links: dict[ClusterNode, Link] = {}

    def _keys_of_script(self, keys: Sequence[str]) -> Sequence[str]:
        return _guarded(keys)

    async def call(
        self,
        *command: Argument,
        key: str | None = None,
        timeout: float | None = None,
        request: Numbered | None = None,
    ) -> Any:
        slot = 0 if key is None else slot_of(key)
        for _ in range(_REDIRECTS):
            link = await self._link_for(slot)
            try:
                return await link.call(*command, timeout=timeout, request=request)
            except Moved as moved:
                # Only after a redirection it is certain that nothing was applied, so repeating is
                # safe.
                self._cluster.moved(moved)
            except StoreUnavailable:
                self._cluster.distrust()
                raise
        self._cluster.distrust()
        raise StoreUnavailable(f"Redis: the nodes do not agree on which of them has slot {slot}")

    async def drop(self) -> None:
        links, self._links = self._links, {}
        for link in links.values():
            await link.drop()

    async def _link_for(self, slot: int) -> Link:
        node = await self._cluster.owner(slot)
        if node not in self._links:
            await self._drop_gone()
        link = self._links.get(node)
        if link is None:
            connect = partial(self._cluster.connect_to, node)
            link = self._links[node] = Link(
                connect,
                repeats=self._repeats,
                confirmation=self._confirmation,
                settings=self._settings,
            )
        return link

    async def _drop_gone(self) -> None:
        """Close links to nodes that are gone."""
        for node, link in tuple(self._links.items()):
            if node not in self._cluster.nodes and not link.busy:
                self._links.pop(node, None)
                await link.drop()


class KeyLink(Link):
    """One connection, to the node that has `key` when it is made. After an error the next request
    looks for the node again."""

    def __init__(self, cluster: Cluster, key: str, *, abandoned: Abandoned) -> None:
        connect = partial(cluster.connect_for, slot_of(key))
        super().__init__(connect, abandoned=abandoned, settings=cluster.link_settings)
        self._cluster = cluster
        self._key = key

    def _keys_of_script(self, keys: Sequence[str]) -> Sequence[str]:
        return _guarded(keys)

    async def call(
        self,
        *command: Argument,
        key: str | None = None,
        timeout: float | None = None,
        request: Numbered | None = None,
    ) -> Any:
        try:
            return await self._call(command, timeout, request)
        except Moved as moved:
            self._cluster.moved(moved)
            raise
        except StoreUnavailable:
            self._cluster.distrust()
            raise

    async def _call(
        self, command: Sequence[Argument], timeout: float | None, request: Numbered | None
    ) -> Any:
        try:
            return await super().call(*command, timeout=timeout, request=request)
        except NoGroup:
            # A stream that moves to another node looks as if it were deleted; asked again, the node
            # answers with a redirection.
            await super().call("EXISTS", self._key)
            raise


def _guarded(keys: Sequence[str]) -> list[str]:
    """With one key that is never there. While their slot is moved to another node, key by key, the
    server then refuses a script as a whole; it would otherwise fail at the first key that has gone,
    or has never been, with half of its writes done."""
    return [*keys, f"{keys[0]}:never"]
