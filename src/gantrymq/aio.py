"""The asyncio client: the same names as the blocking one in ``gantrymq``, with ``await``."""

from gantrymq.admin import Admin, QueueStats
from gantrymq.client.config import (
    LitePullConfig,
    ProducerConfig,
    PullConfig,
    PushConfig,
    SimpleConfig,
    TransactionProducerConfig,
)
from gantrymq.client.listener import DecisiveListener, TransactionListener
from gantrymq.client.lite_pull_consumer import LitePullConsumer
from gantrymq.client.lite_simple_consumer import LiteSimpleConsumer
from gantrymq.client.producer import Producer
from gantrymq.client.pull_consumer import PullConsumer
from gantrymq.client.push_consumer import PushConsumer
from gantrymq.client.results import (
    ConsumeStatus,
    PullResult,
    PullStatus,
    RawPull,
    ReconsumeLater,
    SendResult,
    SendStatus,
    TransactionSendResult,
)
from gantrymq.client.simple_consumer import SimpleConsumer
from gantrymq.client.transaction_producer import TransactionProducer
from gantrymq.message.heartbeat import ConsumeFromWhere
from gantrymq.message.message import Message, MessageView
from gantrymq.message.queues import MessageQueue
from gantrymq.message.transaction import LocalTransactionState

__all__ = [
    "Admin",
    "ConsumeFromWhere",
    "ConsumeStatus",
    "DecisiveListener",
    "LitePullConfig",
    "LitePullConsumer",
    "LiteSimpleConsumer",
    "LocalTransactionState",
    "Message",
    "MessageQueue",
    "MessageView",
    "Producer",
    "ProducerConfig",
    "PullConfig",
    "PullConsumer",
    "PullResult",
    "PullStatus",
    "PushConfig",
    "PushConsumer",
    "QueueStats",
    "RawPull",
    "ReconsumeLater",
    "SendResult",
    "SendStatus",
    "SimpleConfig",
    "SimpleConsumer",
    "TransactionListener",
    "TransactionProducer",
    "TransactionProducerConfig",
    "TransactionSendResult",
]
