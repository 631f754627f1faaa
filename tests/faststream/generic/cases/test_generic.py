"""FastStream's generic tests of brokers, played with a GantryBroker: in FastStream's test client, and for real.

Left out: ``AddressTemplateTestcase``, because RocketMQ has no patterns of topics (docs/faststream.md).
"""

from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock

from cases_config import InMemory, Real
from faststream import BaseMiddleware
from tests.brokers.base.codec import BatchCodecTestcase, CodecTestcase
from tests.brokers.base.connection import BrokerConnectionTestcase
from tests.brokers.base.consume import BrokerRealConsumeTestcase
from tests.brokers.base.fastapi import FastAPILocalTestcase, FastAPITestcase
from tests.brokers.base.include_router import IncludePublisherTestcase, IncludeSubscriberTestcase
from tests.brokers.base.middlewares import (
    ExceptionMiddlewareTestcase,
    MiddlewaresOrderTestcase,
    MiddlewareTestcase,
)
from tests.brokers.base.parser import CustomParserTestcase
from tests.brokers.base.publish import BrokerPublishTestcase
from tests.brokers.base.publish_command import BatchPublishCommandTestcase
from tests.brokers.base.requests import RequestsTestcase
from tests.brokers.base.router import RouterLocalTestcase, RouterTestcase
from tests.brokers.base.testclient import BrokerTestclientTestcase

from gantrymq.faststream import (
    GantryBroker,
    GantryPublishCommand,
    GantryPublisherRoute,
    GantryRoute,
    GantryRouter,
)
from gantrymq.faststream.fastapi import GantryRouter as FastAPIRouter
from gantrymq.faststream.testing import InProcessProducer
from gantrymq.testing import LocalCluster


class Doubled(BaseMiddleware):
    async def on_receive(self) -> None:
        self.msg.body = self.msg.body * 2

    async def consume_scope(self, call_next: Any, msg: Any) -> Any:
        msg.body = msg.body * 2
        return await call_next(msg)


class TestCodec(InMemory, CodecTestcase): ...


class TestBatchCodec(InMemory, BatchCodecTestcase): ...


class TestConnection(BrokerConnectionTestcase):
    broker = GantryBroker


class TestConsume(Real, BrokerRealConsumeTestcase):
    async def test_iteration(self, queue: str, mock: MagicMock, cluster: LocalCluster) -> None:
        """It wants an order over the whole topic. RocketMQ has one within a queue, so the topic has one queue."""
        cluster.create_topic(queue, queues=1)
        await super().test_iteration(queue, mock)


class TestFastAPI(Real, FastAPITestcase):
    router_class = FastAPIRouter
    broker_router_class = GantryRouter


class TestFastAPILocal(InMemory, FastAPILocalTestcase):
    router_class = FastAPIRouter
    broker_router_class = GantryRouter


class TestIncludeSubscriber(Real, IncludeSubscriberTestcase): ...


class TestIncludePublisher(Real, IncludePublisherTestcase): ...


class TestMiddlewaresOrder(InMemory, MiddlewaresOrderTestcase): ...


class TestMiddlewares(Real, MiddlewareTestcase): ...


class TestExceptionMiddlewares(Real, ExceptionMiddlewareTestcase): ...


class TestParser(Real, CustomParserTestcase): ...


class TestPublish(Real, BrokerPublishTestcase): ...


class TestPublishCommand(BatchPublishCommandTestcase):
    publish_command_cls = GantryPublishCommand


class TestRequests(Real, RequestsTestcase):
    def get_middleware(self, **options: Any) -> Any:
        return Doubled


class TestRequestsLocal(InMemory, RequestsTestcase):
    def get_middleware(self, **options: Any) -> Any:
        return Doubled


class TestRouter(Real, RouterTestcase):
    route_class = GantryRoute
    publisher_class = GantryPublisherRoute


class TestRouterLocal(InMemory, RouterLocalTestcase):
    route_class = GantryRoute
    publisher_class = GantryPublisherRoute


class TestTestclient(InMemory, BrokerTestclientTestcase):
    def get_fake_producer_class(self) -> type:
        return InProcessProducer
