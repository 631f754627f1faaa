"""Transactional messaging for Python, wire- and disk-compatible with Apache RocketMQ.

The blocking client is here; ``gantrymq.aio`` has the same names for asyncio. Nothing is imported before it is used.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if "GANTRY_PURE" in os.environ or "GANTRY_COMPILED" in os.environ:
    # Before any other module of the package: it decides whether their compiled or their Python form is imported.
    from gantrymq.build_info import choose

    choose()

if TYPE_CHECKING:
    from gantrymq.admin import QueueStats as QueueStats
    from gantrymq.admin.blocking import Admin as Admin
    from gantrymq.client.listener import DecisiveListener as DecisiveListener
    from gantrymq.client.listener import TransactionListener as TransactionListener
    from gantrymq.client.results import ConsumeStatus as ConsumeStatus
    from gantrymq.client.results import PullResult as PullResult
    from gantrymq.client.results import PullStatus as PullStatus
    from gantrymq.client.results import RawPull as RawPull
    from gantrymq.client.results import ReconsumeLater as ReconsumeLater
    from gantrymq.client.results import SendResult as SendResult
    from gantrymq.client.results import SendStatus as SendStatus
    from gantrymq.client.results import TransactionSendResult as TransactionSendResult
    from gantrymq.client.sync import LitePullConsumer as LitePullConsumer
    from gantrymq.client.sync import LiteSimpleConsumer as LiteSimpleConsumer
    from gantrymq.client.sync import Producer as Producer
    from gantrymq.client.sync import PullConsumer as PullConsumer
    from gantrymq.client.sync import PushConsumer as PushConsumer
    from gantrymq.client.sync import SimpleConsumer as SimpleConsumer
    from gantrymq.client.sync import TransactionProducer as TransactionProducer
    from gantrymq.errors import GantryError as GantryError
    from gantrymq.message.heartbeat import ConsumeFromWhere as ConsumeFromWhere
    from gantrymq.message.message import Message as Message
    from gantrymq.message.message import MessageView as MessageView
    from gantrymq.message.queues import MessageQueue as MessageQueue
    from gantrymq.message.transaction import LocalTransactionState as LocalTransactionState

__version__ = "0.1.0"

_HOMES = {
    "Admin": "admin.blocking",
    "ConsumeFromWhere": "message.heartbeat",
    "ConsumeStatus": "client.results",
    "GantryError": "errors",
    "LitePullConsumer": "client.sync",
    "LiteSimpleConsumer": "client.sync",
    "LocalTransactionState": "message.transaction",
    "Message": "message.message",
    "MessageQueue": "message.queues",
    "MessageView": "message.message",
    "Producer": "client.sync",
    "PullConsumer": "client.sync",
    "PullResult": "client.results",
    "PullStatus": "client.results",
    "PushConsumer": "client.sync",
    "QueueStats": "admin",
    "RawPull": "client.results",
    "ReconsumeLater": "client.results",
    "SendResult": "client.results",
    "SendStatus": "client.results",
    "SimpleConsumer": "client.sync",
    "DecisiveListener": "client.listener",
    "TransactionListener": "client.listener",
    "TransactionProducer": "client.sync",
    "TransactionSendResult": "client.results",
}
"""Where each public name lives."""

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'gantrymq' has no attribute {name!r}")
    return getattr(import_module(f"gantrymq.{home}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
