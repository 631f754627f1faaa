"""Routers: subscribers and publishers of a module, which a broker includes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from faststream._internal.broker.router import ArgsContainer, BrokerRouter, SubscriberRoute
from faststream._internal.configs import BrokerConfig
from faststream._internal.constants import EMPTY
from faststream.middlewares import AckPolicy

from gantrymq.faststream.registrator import GantryRegistrator

if TYPE_CHECKING:
    from fast_depends.dependencies import Dependant
    from faststream._internal.types import BrokerMiddleware, CustomCallable


class GantryPublisherRoute(ArgsContainer):
    """A publisher of a ``GantryRoute``: takes the arguments of ``broker.publisher``."""

    def __init__(self, topic: str, **options: Any) -> None:
        super().__init__(topic, **options)


class GantryRoute(SubscriberRoute):
    """A handler of a router without a decorator: takes the function, and the arguments of ``broker.subscriber``."""

    def __init__(
        self,
        call: Callable[..., Any] | Callable[..., Awaitable[Any]],
        topic: str,
        group: str = "",
        *,
        publishers: Iterable[GantryPublisherRoute] = (),
        **options: Any,
    ) -> None:
        super().__init__(call, topic, group, publishers=publishers, **options)


class GantryRouter(GantryRegistrator, BrokerRouter[Any, Any]):
    """``broker.include_router(router)`` takes it; ``prefix`` is put before the topics of its endpoints."""

    def __init__(
        self,
        prefix: str = "",
        handlers: Iterable[GantryRoute] = (),
        *,
        dependencies: Sequence[Dependant] = (),
        middlewares: Sequence[BrokerMiddleware[Any, Any]] = (),
        routers: Iterable[GantryRegistrator] = (),
        parser: CustomCallable | None = None,
        decoder: CustomCallable | None = None,
        include_in_schema: bool | None = None,
        ack_policy: AckPolicy = EMPTY,
    ) -> None:
        config = BrokerConfig(
            prefix=prefix, broker_dependencies=dependencies, broker_middlewares=middlewares, broker_parser=parser,
            broker_decoder=decoder, include_in_schema=include_in_schema, ack_policy=ack_policy,
        )  # fmt: skip
        super().__init__(config=config, handlers=handlers, routers=routers)
