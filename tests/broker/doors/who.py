"""Somebody who comes through a door, and what is common to all who do."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from gantrymq.testing import LocalCluster

T = TypeVar("T")
HTTP_PORT: Final = 8080
SECONDS: Final = 10


@dataclass(frozen=True)
class Who:
    """The name of a producer group, and a user where the broker has some."""

    group: str = "payments"
    user: str | None = None

    @property
    def secret(self) -> str:
        return f"{self.user}-secret"

    @property
    def client_id(self) -> str:
        return f"client-{self.group}"


@dataclass(frozen=True)
class Delivery:
    """A message that was popped."""

    body: bytes
    queue_id: int
    offset: int
    handle: str


def on(cluster: LocalCluster, work: Coroutine[Any, Any, T]) -> T:
    """On the loop of the cluster."""
    return cluster._calls.run(work)
