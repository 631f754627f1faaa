"""Derives the settings of the broker's parts (store, transactions, timer messages) from the broker's settings."""

from __future__ import annotations

from typing import Final

from gantrymq.broker.config import BrokerConfig
from gantrymq.broker.delivery.timer_rules import TimerRules
from gantrymq.errors import ConfigError
from gantrymq.store.config import FlushDiskType, StoreConfig
from gantrymq.transactions.config import TransactionConfig

TIMER_STEPS_MS: Final = (100, 200, 500, 1000)
MIN_ROLL_SLOTS: Final = 2
MAX_ROLL_SLOTS: Final = 7 * 24 * 3600 - 60
"""Apache's wheel has slots for seven days, of which it leaves a minute free."""


def store_config(config: BrokerConfig) -> StoreConfig:
    """The store's part of the settings; raises ConfigError naming a key that cannot work."""
    if not config.store.store_path_root_dir:
        raise ConfigError("storePathRootDir is not set; it names the directory of the store")
    return StoreConfig(
        root=config.store.store_path_root_dir,
        log_directory=config.store.store_path_commit_log,
        mapped_file_size_commit_log=config.store.mapped_file_size_commit_log,
        mapped_file_size_consume_queue=config.store.mapped_file_size_consume_queue,
        max_index_num=config.store.max_index_num,
        max_hash_slot_num=config.store.max_hash_slot_num,
        message_index_enable=config.store.message_index_enable,
        flush_disk_type=FlushDiskType(config.store.flush_disk_type),
        sync_flush_timeout=config.store.sync_flush_timeout,
        disk_space_warning_ratio=config.store.disk_space_warning_level_ratio / 100,
        disk_space_reserve=config.store.disk_space_reserve,
        message_delay_level=config.delay.message_delay_level,
    )


PROMOTED_GRACE_MS: Final = 35_000
"""So long a broker that has become primary waits for the senders of open halves with decisive checkers, before it takes
them for dead. The immunity of a half may end before that."""


def transaction_config(config: BrokerConfig, *, promoted: bool = False) -> TransactionConfig:
    """The transactions' part of the settings. ``promoted``: this broker has become primary, and clients do not know it
    yet. They look for routes every 30 s."""
    grace_ms = config.transactions.decisive_check_grace_at_start
    if promoted and grace_ms >= 0:
        grace_ms = max(grace_ms, PROMOTED_GRACE_MS)
    return TransactionConfig(
        timeout_ms=config.transactions.transaction_time_out,
        check_interval_ms=config.transactions.transaction_check_interval,
        check_max=config.transactions.transaction_check_max,
        sender_grace_ms=config.transactions.decisive_check_grace,
        start_grace_ms=grace_ms,
        reserved_hours=config.retention.file_reserved_time,
        reject=config.transactions.reject_transaction_message,
        op_message_bytes=config.transactions.transaction_op_msg_max_size,
        promoted=promoted,
        broker_name=config.identity.broker_name,
    )


def timer_rules(config: BrokerConfig) -> TimerRules:
    """The timer messages' part of the settings, within the steps and limits that Apache's wheel has."""
    delay = config.delay
    precision = max((step for step in TIMER_STEPS_MS if step <= delay.timer_precision_ms), default=TIMER_STEPS_MS[0])
    window = delay.timer_roll_window_slot
    if not MIN_ROLL_SLOTS <= window <= MAX_ROLL_SLOTS:
        window = MAX_ROLL_SLOTS
    return TimerRules(precision, delay.timer_max_delay_sec * 1000, window * precision)
