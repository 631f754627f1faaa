"""A router of FastAPI with subscribers: ``app.include_router(router)`` starts and stops the broker with the app.

Handlers use FastAPI's ``Depends``. Needs FastAPI beside ``gantrymq[faststream]``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Final, cast

from fastapi.datastructures import Default
from faststream._internal.fastapi import StreamRouter
from faststream._internal.fastapi.context import Context, ContextRepo, Logger

from gantrymq.faststream.broker import GantryBroker as _Broker
from gantrymq.faststream.message import GantryMessage as _Message
from gantrymq.faststream.publisher import GantryPublisher
from gantrymq.faststream.subscriber import GantrySubscriber

__all__ = ["Context", "ContextRepo", "GantryBroker", "GantryMessage", "GantryRouter", "Logger"]

GantryBroker = Annotated[_Broker, Context("broker")]
GantryMessage = Annotated[_Message, Context("message")]


_DEFAULTS: Final[dict[str, Any]] = {
    "dependencies": (),
    "response_model": Default(None),
    "response_model_include": None,
    "response_model_exclude": None,
    "response_model_by_alias": True,
    "response_model_exclude_unset": False,
    "response_model_exclude_defaults": False,
    "response_model_exclude_none": False,
}
"""FastAPI's own."""


class GantryRouter(StreamRouter[Any]):
    """Takes the arguments of ``GantryBroker`` and those of FastAPI's ``APIRouter``."""

    broker_class = _Broker
    broker: _Broker

    def __init__(
        self,
        name_servers: str | Iterable[str] = "127.0.0.1:9876",
        *,
        context: ContextRepo | None = None,
        schema_url: str | None = "/asyncapi",
        **arguments: Any,
    ) -> None:
        """``schema_url``: where the AsyncAPI page is; None: nowhere."""
        super().__init__(name_servers, context=context, schema_url=schema_url, **arguments)

    def subscriber(  # type: ignore[override]
        self, topic: str, group: str = "", **options: Any
    ) -> GantrySubscriber:
        """See ``GantryBroker.subscriber``; ``dependencies`` are FastAPI's, and so are the ``response_model`` ones."""
        return cast(GantrySubscriber, super().subscriber(topic, group, **{**_DEFAULTS, **options}))

    def publisher(  # type: ignore[override]
        self, topic: str, **options: Any
    ) -> GantryPublisher:
        """See ``GantryBroker.publisher``."""
        return self.broker.publisher(topic, **options)
