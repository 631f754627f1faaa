"""What a client is told about itself: its settings, with those of the broker. Pure.

Source: GrpcClientSettingsManager; docs/grpc.md#settings. Clients refuse answers that lack one of these fields.
"""

from __future__ import annotations

from typing import Final

from gantrymq.grpc.definition_pb2 import ClientType, RetryPolicy, Settings
from gantrymq.message.lite_topics import LITE_TOPIC_MAX

LITE_CONSUMERS: Final = frozenset({ClientType.LITE_PUSH_CONSUMER, ClientType.LITE_SIMPLE_CONSUMER})
SEND_ATTEMPTS: Final = 3
SEND_BACKOFF_MS: Final = 10
"""First pause of a producer between two attempts; each is twice the one before."""
SEND_BACKOFF_MAX_SECONDS: Final = 1
RECEIVE_BATCH: Final = 32
POLLING_SECONDS: Final = 20
BACKOFF_SECONDS: Final = (
    1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200,
)  # fmt: skip
"""When a message that was not consumed comes again, by the number of attempts."""


def answer_of(
    asked: Settings, body_max: int, max_attempts: int, *, fifo: bool, checks_type: bool, lite_quota: int
) -> Settings:
    """The settings that a client shall use. ``max_attempts``, ``fifo``, ``lite_quota``: of its consumer group."""
    answer = Settings()
    answer.CopyFrom(asked)
    answer.metric.on = False
    if asked.HasField("subscription"):
        answer.subscription.fifo = fifo
        answer.subscription.receive_batch_size = RECEIVE_BATCH
        answer.subscription.long_polling_timeout.seconds = POLLING_SECONDS
        answer.backoff_policy.CopyFrom(_consumer_backoff(max_attempts))
        if asked.client_type in LITE_CONSUMERS:
            answer.subscription.fifo = True
            answer.subscription.lite_subscription_quota = lite_quota
            answer.subscription.max_lite_topic_size = LITE_TOPIC_MAX
    else:
        answer.publishing.max_body_size = body_max
        answer.publishing.validate_message_type = checks_type
        answer.backoff_policy.CopyFrom(_producer_backoff())
    return answer


def _consumer_backoff(max_attempts: int) -> RetryPolicy:
    policy = RetryPolicy(max_attempts=max_attempts)
    for seconds in BACKOFF_SECONDS:
        policy.customized_backoff.next.add(seconds=seconds)
    return policy


def _producer_backoff() -> RetryPolicy:
    policy = RetryPolicy(max_attempts=SEND_ATTEMPTS)
    backoff = policy.exponential_backoff
    backoff.initial.nanos = SEND_BACKOFF_MS * 1_000_000
    backoff.max.seconds = SEND_BACKOFF_MAX_SECONDS
    backoff.multiplier = 2
    return policy
