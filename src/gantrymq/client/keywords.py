"""Keyword arguments for type checkers. Written by ``python -m tools.settings_types`` from the settings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypedDict


class ClientSettings(TypedDict, total=False):
    """The fields of ClientConfig as keyword arguments."""

    instance_name: str | None
    call_timeout_ms: int
    route_refresh_ms: int
    heartbeat_interval_ms: int
    close_timeout_ms: int
    namespace: str | None
    access_key: str | None
    secret_key: str | None
    tls: bool | None
    tls_trust_cert_path: str | None
    tls_cert_path: str | None
    tls_key_path: str | None
    tls_key_password: str | None
    tls_verify: bool


class ProducerSettings(ClientSettings, total=False):
    """The fields of ProducerConfig as keyword arguments."""

    send_timeout_ms: int
    retries: int
    compress_over_bytes: int
    compress_level: int
    compress_type: str
    max_message_bytes: int
    batch_bytes: int
    default_topic_queue_nums: int
    avoid_slow_brokers: bool
    retry_when_not_stored_ok: bool
    trace: bool
    trace_topic: str
    topics: str | Iterable[str]


class TransactionProducerSettings(ProducerSettings, total=False):
    """The fields of TransactionProducerConfig as keyword arguments."""

    inline_listener: bool
    check_threads: int
    check_queue_size: int
    end_retries: int
    remembered_transactions: int


class PullSettings(ClientSettings, total=False):
    """The fields of PullConfig as keyword arguments."""

    pull_timeout_ms: int
    max_body_bytes: int
    reconnect: bool


class GroupConsumerSettings(ClientSettings, total=False):
    """The fields of GroupConsumerConfig as keyword arguments."""

    pull_timeout_ms: int
    max_messages_per_queue: int
    max_bytes_per_queue: int
    max_body_bytes: int
    rebalance_interval_ms: int
    timestamp_ms: int


class PushSettings(GroupConsumerSettings, total=False):
    """The fields of PushConfig as keyword arguments."""

    consume_threads: int
    consume_batch_size: int
    pull_batch_size: int
    pull_suspend_ms: int
    max_span_per_queue: int
    max_reconsume_times: int
    persist_interval_ms: int
    orderly: bool
    suspend_ms: int
    lock_interval_ms: int
    broadcasting: bool
    offset_dir: str
    trace: bool
    trace_topic: str


class LitePullSettings(GroupConsumerSettings, total=False):
    """The fields of LitePullConfig as keyword arguments."""

    poll_timeout_ms: int
    poll_batch_size: int
    auto_commit: bool
    auto_commit_interval_ms: int
    pull_batch_size: int
    pull_suspend_ms: int


class SimpleSettings(ClientSettings, total=False):
    """The fields of SimpleConfig as keyword arguments."""

    await_duration_ms: int
    orderly: bool
    max_body_bytes: int
