"""How the broker's settings are passed to its parts."""

from __future__ import annotations

import pytest

from gantrymq.broker.config import BrokerConfig
from gantrymq.broker.part_settings import MAX_ROLL_SLOTS, store_config, timer_rules, transaction_config
from gantrymq.errors import ConfigError


def test_without_a_place_for_the_messages_there_is_no_store() -> None:
    with pytest.raises(ConfigError, match="storePathRootDir"):
        store_config(BrokerConfig())
    assert store_config(BrokerConfig.of(store_path_root_dir="/s", disk_space_warning_level_ratio=90)).root == "/s"


@pytest.mark.parametrize(
    ("settings", "limit_ms"),
    [
        ({}, None),
        ({"sync_flush_timeout": 5_000}, 5_000),
        ({"sync_flush_timeout": 5_000, "flush_disk_type": "ASYNC_FLUSH"}, None),
    ],
)
def test_senders_wait_for_the_disk_as_long_as_it_takes_unless_a_limit_is_set(
    settings: dict[str, object], limit_ms: int | None
) -> None:
    assert store_config(BrokerConfig.of(store_path_root_dir="/s", **settings)).flush_limit_ms == limit_ms


def test_a_negative_limit_is_refused() -> None:
    with pytest.raises(ConfigError, match="syncFlushTimeout"):
        BrokerConfig.of(sync_flush_timeout=-1)


def test_transactions_are_told_what_the_broker_is_called() -> None:
    reported = transaction_config(BrokerConfig.of(broker_name="b", transaction_time_out=7, transaction_check_max=3))
    assert (reported.broker_name, reported.timeout_ms, reported.check_max) == ("b", 7, 3)


@pytest.mark.parametrize(("wanted", "precision"), [(50, 100), (100, 100), (700, 500), (5000, 1000)])
def test_timer_steps_are_those_of_the_wheel(wanted: int, precision: int) -> None:
    assert timer_rules(BrokerConfig.of(timer_precision_ms=wanted)).precision_ms == precision


@pytest.mark.parametrize(("slots", "window"), [(1, MAX_ROLL_SLOTS), (2, 2), (MAX_ROLL_SLOTS + 1, MAX_ROLL_SLOTS)])
def test_a_roll_window_that_the_wheel_has_not_is_its_largest(slots: int, window: int) -> None:
    rules = timer_rules(BrokerConfig.of(timer_roll_window_slot=slots, timer_precision_ms=1000))
    assert rules.roll_window_ms == window * 1000
