"""How FastStream's cases make brokers, routers and subscribers."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from gantrymq.faststream import GantryBroker, GantryRouter, TestGantryBroker


class Real:
    timeout = 10.0
    supports_cancel_ack_skip = True

    def get_broker(self, apply_types: bool = False, **options: Any) -> GantryBroker:
        return GantryBroker(apply_types=apply_types, **options)

    def get_router(self, **options: Any) -> GantryRouter:
        return GantryRouter(**options)

    def get_subscriber_params(self, *topics: Any, **options: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return topics, {"group": f"group-{uuid4()}", **options}


class InMemory(Real):
    def patch_broker(self, *brokers: GantryBroker, **options: Any) -> Any:
        return TestGantryBroker(*brokers, **options)
