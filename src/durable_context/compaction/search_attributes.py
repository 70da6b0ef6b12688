"""Search attributes of our runs in Temporal: registered by the migration step, set when a run is
started, and never in its way. Like `temporal_calls` it imports temporalio.
"""

import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar
from weakref import WeakKeyDictionary

from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import (
    AddSearchAttributesRequest,
    ListSearchAttributesRequest,
)
from temporalio.client import Client
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes
from temporalio.service import RPCError, RPCStatusCode

from durable_context.contracts import SEARCH_ATTRIBUTES

logger = logging.getLogger(__name__)

LISTED_AGAIN_AFTER = 600.0
"""Seconds until it is seen that somebody has registered more of them, or removed some."""
AWAY = (
    RPCStatusCode.UNAVAILABLE,
    RPCStatusCode.DEADLINE_EXCEEDED,
    RPCStatusCode.CANCELLED,
    RPCStatusCode.NOT_FOUND,
)
NONE = TypedSearchAttributes([])
Started = TypeVar("Started")


async def registered_search_attributes(client: Client) -> frozenset[str]:
    """Those of ours that the namespace knows; none where listing is not allowed."""
    request = ListSearchAttributesRequest(namespace=client.namespace)
    try:
        known = await client.operator_service.list_search_attributes(request)
    except RPCError as error:
        if error.status in (RPCStatusCode.PERMISSION_DENIED, RPCStatusCode.UNIMPLEMENTED):
            return frozenset()
        raise
    return frozenset(known.custom_attributes) & frozenset(SEARCH_ATTRIBUTES)


async def register_search_attributes(client: Client) -> list[str]:
    """Register what is missing and return it. For the migration step; safe to repeat. What the
    server will not have is logged and left: runs are found by their ids.
    """
    known = await registered_search_attributes(client)
    missing = [name for name in SEARCH_ATTRIBUTES if name not in known]
    # One by one: where there is no room for all, there may be for some.
    return [name for name in missing if await _register(client, name)]


async def _register(client: Client, name: str) -> bool:
    request = AddSearchAttributesRequest(
        namespace=client.namespace,
        search_attributes={name: IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD},
    )
    try:
        await client.operator_service.add_search_attributes(request)
    except RPCError as error:
        if error.status in AWAY:
            raise
        logger.warning("search attribute %s is not registered: %s", name, error)
        return False
    return True


class SearchAttributes:
    """What of ours the namespace of one client knows, as it was listed some time ago."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: frozenset[str] = frozenset()
        self._listed_at: float | None = None

    async def of(self, values: Mapping[str, str]) -> TypedSearchAttributes:
        """Of those values that are not empty, what is registered: the server would refuse to start
        a run with any other. Raises RPCError where the server is away.
        """
        known = await self._registered()
        return TypedSearchAttributes(
            [
                SearchAttributePair(SearchAttributeKey.for_keyword(name), value)
                for name, value in values.items()
                if value and name in known
            ]
        )

    async def start(
        self,
        values: Mapping[str, str],
        start: Callable[[TypedSearchAttributes], Awaitable[Started]],
    ) -> Started:
        """Start a run with them; without, where the server refuses to have them."""
        attributes = await self.of(values)
        try:
            return await start(attributes)
        except RPCError as error:
            if not len(attributes) or not _is_refusal(error):
                raise
        self._known = frozenset()
        logger.warning("Temporal refuses search attributes that it lists: runs start without them")
        return await start(NONE)

    async def _registered(self) -> frozenset[str]:
        now = time.monotonic()
        if self._listed_at is None or now - self._listed_at > LISTED_AGAIN_AFTER:
            self._known = await self._list()
            self._listed_at = now
        return self._known

    async def _list(self) -> frozenset[str]:
        """None where the server is there and will not tell."""
        try:
            return await registered_search_attributes(self._client)
        except RPCError as error:
            if error.status in AWAY:
                raise
            logger.warning("runs start without search attributes, Temporal lists none: %s", error)
            return frozenset()


def _is_refusal(error: RPCError) -> bool:
    is_invalid = error.status == RPCStatusCode.INVALID_ARGUMENT
    return is_invalid and "search attribute" in error.message.lower()


_OF_CLIENTS: WeakKeyDictionary[Client, SearchAttributes] = WeakKeyDictionary()


def search_attributes(client: Client) -> SearchAttributes:
    """Listed once for all that is started with this client."""
    if client not in _OF_CLIENTS:
        _OF_CLIENTS[client] = SearchAttributes(client)
    return _OF_CLIENTS[client]
